package dispatch

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/egress"
	"rubato/internal/errs"
	"rubato/internal/runs"
)

// nothingDue is a store that has nothing to claim.
type nothingDue struct{ claims.Store }

func (nothingDue) ClaimDue(context.Context, claims.Request) ([]claims.Claim, time.Time, error) {
	return nil, time.Now(), nil
}

// recordless is a database that takes signs of life and no records.
type recordless struct{ Executions }

func (recordless) Beat(context.Context, Presence) error                { return nil }
func (recordless) Cancels(context.Context, [16]byte) ([]Cancel, error) { return nil, nil }
func (recordless) Finish(context.Context, Finish) (Finished, error) {
	return Finished{}, errs.New(errs.Unavailable, "away", "the database is away")
}

// TestADrainLastsTheGraceAndAMomentForRecords has a request that takes all of the grace, and a database that takes no record of it. Whatever
// supervises the worker was told how long that may last.
func TestADrainLastsTheGraceAndAMomentForRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = 30 * time.Second
		client := egress.New(egress.Config{})
		defer client.Close()
		w := New(Config{
			Slots: 4, Rules: claims.Rules{Horizon: 10 * time.Second, LockTTL: time.Minute}, PollInterval: time.Second, Grace: grace,
			Claims: nothingDue{}, Executions: recordless{}, Egress: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		w.busy.Store(1)
		w.crew.run(func() {
			<-ctx.Done()
			time.Sleep(grace)
			w.results <- runs.Run{}
		})
		began := time.Now()
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, grace+recordGrace, time.Since(began))
	})
}
