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

// Held returns the resources that the worker holds for runs: slots in all and by tenant, places at
// hosts, claims, open requests.
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

// WaitingForHost returns the number of claims that wait for a host slot at a full host.
func (w *Worker) WaitingForHost() int { return w.queue.WaitingForHost() }

// AssumeCalm makes a worker trust the latencies that it measures, however busy the machine is.
func AssumeCalm(cfg *Config) { cfg.load = func() loadSample { return loadSample{} } }
