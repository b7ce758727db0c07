package dispatch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/waittest"
)

// outlived counts the live runs that started longer ago than a start is good for.
const outlived = "SELECT count(*) FROM live_runs WHERE started_at < clock_timestamp() - interval '1100 ms'"

// crowded runs a worker with one connection to its target, which a first request holds until it is
// let go. A confirm of nil asks the database.
func (b *bundle) crowded(t *testing.T, confirm func(context.Context) (bool, error)) (*gatedTarget, *process) {
	t.Helper()
	target, client := startGated(t), alone(t)
	b.register(t, target.Target, nil)
	p := b.work(t, func(cfg *dispatch.Config) {
		b.with(&faultyExecutions{confirm: confirm})(cfg)
		cfg.Egress = client
	})
	waittest.Receive(t, target.arrived)
	return target, p
}

// TestDelayedRequestsAreConfirmedBeforeSending lets two runs wait for the only connection to their
// host for longer than a start is valid, and pauses one of them meanwhile.
func TestDelayedRequestsAreConfirmedBeforeSending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, p := b.crowded(t, nil)

	paused, patient := b.register(t, target.Target, nil), b.register(t, target.Target, nil)
	b.await(t, 3, "SELECT count(*) FROM live_runs")
	_, err := b.service.Pause(t.Context(), tenant, paused.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	b.await(t, 3, outlived)
	target.letGo <- struct{}{}
	target.letGo <- struct{}{}
	b.await(t, 2, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'")
	p.stop(t)

	require.Len(t, target.Requests(), 2)
	require.Equal(t, "skipped", b.state(t, paused).LastRun.Status)
	require.Equal(t, "succeeded", b.state(t, patient).LastRun.Status)
}

// TestUnconfirmedRequestsAreNotSent fails the confirmation of a delayed run with a database error.
func TestUnconfirmedRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, p := b.crowded(t, func(context.Context) (bool, error) { return true, errAway })
	e := b.register(t, target.Target, nil)
	b.await(t, 2, outlived)
	target.letGo <- struct{}{}
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
	require.Zero(t, b.state(t, e).FailureCount)
}

// TestACancelDuringConfirmationIsRecorded cancels a run while its confirmation hangs. The reason is
// the cancel and not the database.
func TestACancelDuringConfirmationIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := make(chan struct{}, 10)
	target, p := b.crowded(t, func(ctx context.Context) (bool, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return false, errAway
	})
	e := b.register(t, target.Target, nil)
	b.await(t, 2, outlived)
	target.letGo <- struct{}{}
	waittest.Receive(t, asked)
	id := query[[16]byte](t, b, "SELECT run_id FROM live_runs WHERE endpoint_id = $1", e.ID)
	require.NoError(t, b.cancel(t, id))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'canceled' AND reason_code = 'canceled_by_user' AND error = 'canceled by tester: wrong dates'")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
}
