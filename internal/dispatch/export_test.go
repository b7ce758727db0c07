package dispatch

import (
	"context"
	"fmt"
	"time"
)

// HearCancels makes a worker rely on messages: it never looks by itself for runs to cancel.
func HearCancels(cfg *Config) { cfg.cancelEvery = 1000 * time.Hour }

// Ready returns the first check that does not hold.
func (w *Worker) Ready(ctx context.Context) error {
	for _, c := range w.Checks() {
		if err := c.Ask(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Held tells what the worker holds for runs: slots in all and of tenants, places at hosts, claims, requests under way.
func (w *Worker) Held() (held []string) {
	add := func(n int, format string, args ...any) {
		if n != 0 {
			held = append(held, fmt.Sprintf("%d %s", n, fmt.Sprintf(format, args...)))
		}
	}
	add(int(w.busy.Load()), "slots")
	add(w.underway.size(), "requests under way")
	add(w.queue.size(), "claims")
	add(w.queue.parked(), "parked claims")
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	for tenant, l := range w.queue.ripe.lines {
		add(l.busy, "slots of tenant %x", tenant)
	}
	for name, h := range w.queue.ripe.hosts {
		add(h.busy, "places at %s", name)
		for tenant, n := range h.by {
			add(n, "places at %s of tenant %x", name, tenant)
		}
	}
	return held
}
