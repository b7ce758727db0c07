package dispatch

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/egress"
)

// lone returns a worker that calls nobody and tells nobody.
func lone(t *testing.T, cfg Config) *Worker {
	t.Helper()
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	cfg.Egress, cfg.Logger, cfg.Registerer = client, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	return New(cfg)
}
