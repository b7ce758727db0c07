package dispatch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/runs"
)

// TestResultsThatWaitForAWriterShareItsRecord has one writer, who is at work, and results that come meanwhile.
func TestResultsThatWaitForAWriterShareItsRecord(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ come, want int }{
		"Some":             {20, 20},
		"MoreThanOneTakes": {finishBatch + 5, finishBatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := egress.New(egress.Config{})
				defer client.Close()
				w := New(Config{Slots: 4 * finishBatch, Egress: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
				w.busy.Store(3 * finishBatch)
				writers, gathered := make(chan struct{}, 1), make(chan []runs.Run, 1)
				writers <- struct{}{}
				go func() { gathered <- w.gather([]runs.Run{{}}, writers) }()
				for range tc.come - 1 {
					w.results <- runs.Run{}
				}
				time.Sleep(time.Second) // Far longer than a result waits for others.
				synctest.Wait()
				require.Empty(t, gathered)

				<-writers
				require.Len(t, <-gathered, tc.want)
				require.Len(t, writers, 1, "the batch has its writer")
				require.Len(t, w.results, tc.come-tc.want)
			})
		})
	}
}

// TestAResultWaitsForOthersAMoment has a writer who is free: a result that is alone does not wait at all, another one as long as a commit may
// be put off.
func TestAResultWaitsForOthersAMoment(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		busy int64
		want time.Duration
	}{
		"Alone":  {1, 0},
		"Others": {3, finishLinger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := egress.New(egress.Config{})
				defer client.Close()
				w := New(Config{Slots: 8, Egress: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
				w.busy.Store(tc.busy)
				began := time.Now()
				require.Len(t, w.gather([]runs.Run{{}}, make(chan struct{}, 1)), 1)
				require.Equal(t, tc.want, time.Since(began))
			})
		})
	}
}
