package dispatch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// waits returns claims of one tenant that are due so many seconds after start.
func waits(offsets ...int) []*waiting {
	list := make([]*waiting, len(offsets))
	for i, at := range offsets {
		list[i] = newWaiting(claims.Claim{PlannedAt: start.Add(time.Duration(at) * time.Second)}, &request.Target{}, time.Now())
	}
	return list
}

// occupy takes so many slots of a worker.
func occupy(w *Worker, slots int) {
	for range slots {
		w.queue.Occupy([16]byte{})
	}
}

// lone returns a worker without a store and without logs.
func lone(t *testing.T, cfg Config) *Worker {
	t.Helper()
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	cfg.Egress, cfg.Logger, cfg.Registerer = client, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	return New(cfg)
}
