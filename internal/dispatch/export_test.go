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

// Held tells what the worker holds for runs: slots in all and of tenants, places at hosts, claims,
// requests under way.
func (w *Worker) Held() (held []string) {
	add := func(n int, what string) {
		if n != 0 {
			held = append(held, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(w.queue.Busy(), "slots")
	add(w.underway.size(), "requests under way")
	add(w.queue.Len(), "claims")
	add(w.queue.WaitingForHost(), "claims that wait for a host")
	return append(held, w.queue.Held()...)
}

// WaitingForHost returns the number of claims whose host is full.
func (w *Worker) WaitingForHost() int { return w.queue.WaitingForHost() }
