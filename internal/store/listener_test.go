package store_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/store"
)

// TestTheListenerHearsWhatComesDueAndSurvivesACut follows the messages of a registration, past garbage and a lost connection.
func TestTheListenerHearsWhatComesDueAndSurvivesACut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	heard := make(chan time.Time, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		store.NewListener(b.url, slog.New(slog.DiscardHandler)).Run(ctx, func(due time.Time) { heard <- due })
	}()
	require.Zero(t, <-heard, "listening begins with a wake-up for what was missed")

	start := noon().AddDate(0, 0, 2)
	b.register(t, func(s *endpoints.Spec) { s.StartAt = start })
	require.Equal(t, start, (<-heard).UTC())
	b.exec(t, "SELECT pg_notify('rubato_due', 'soon')")
	e := b.register(t, nil)
	require.Equal(t, e.State.Due.At, (<-heard).UTC(), "what cannot be read is passed over")

	b.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")
	require.Zero(t, <-heard, "after a cut it listens again, and says that something may have been missed")
	stop()
	<-ended
}
