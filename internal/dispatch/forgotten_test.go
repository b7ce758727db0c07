package dispatch_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/waittest"
)

// TestAStartLostByTheDatabaseIsNotSentAgain starts a run under the same token while its request is
// in flight. The answer to that request is recorded.
func TestAStartLostByTheDatabaseIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	// It needs heartbeats.
	b.register(t, target.Target, func(s *endpoints.Spec) { s.MaxExecutionTime = 10 * time.Minute })
	b.exec(t, "CREATE TABLE kept AS SELECT * FROM schedules")
	told := make(warned, 100)
	p := b.work(t, func(c *dispatch.Config) { c.Logger = slog.New(told) })
	waittest.Receive(t, target.arrived)
	b.forget(t, 0)
	for !strings.HasPrefix(waittest.Receive(t, told), "a run was started whose request is under way") {
	}
	target.letGo <- struct{}{}
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs"))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
}

// TestAStartLostByTheDatabaseIsCanceledUnderAnotherToken requires the end of the request, because
// the fence would refuse its record.
func TestAStartLostByTheDatabaseIsCanceledUnderAnotherToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startHanging(t)
	b.register(t, target.Target, nil)
	b.exec(t, "CREATE TABLE kept AS SELECT * FROM schedules")
	p := b.work(t, nil)
	id := waittest.Receive(t, target.arrived)
	b.forget(t, 5)
	require.Equal(t, id, waittest.Receive(t, target.gone, "its request is still under way"))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'lock_lost' AND error LIKE 'the database has lost%'")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs"))
}

// warned receives the log messages of a worker.
type warned chan string

func (warned) Enabled(context.Context, slog.Level) bool { return true }

func (w warned) Handle(_ context.Context, r slog.Record) error {
	select {
	case w <- r.Message:
	default: // Nobody listens any more.
	}
	return nil
}

func (w warned) WithAttrs([]slog.Attr) slog.Handler { return w }

func (w warned) WithGroup(string) slog.Handler { return w }

// forget takes claims and starts back, as the promotion of a replica that lagged does: schedules
// are as they were kept, and claims go on further tokens ahead.
func (b *bundle) forget(t *testing.T, further int) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{"SET LOCAL session_replication_role = replica", "DELETE FROM schedules", "INSERT INTO schedules SELECT * FROM kept"} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		_, err := tx.Exec(t.Context(), "UPDATE schedules SET claim_token = claim_token + $1", further)
		return err
	}))
}
