package dispatch_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/dispatch"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	keystore "rubato/internal/store/keys"
	"rubato/internal/waittest"
)

// hangingTarget is a target that never answers. It signals the arrival of a request and the end of
// its connection.
type hangingTarget struct {
	*egresstest.Target
	arrived, gone chan runs.ID
}

func startHanging(t *testing.T) *hangingTarget {
	t.Helper()
	h := &hangingTarget{arrived: make(chan runs.ID, 1000), gone: make(chan runs.ID, 1000)}
	h.Target = egresstest.Start(t, func(c *egresstest.Conn) {
		r, ok := c.Next()
		if !ok {
			return
		}
		id, err := runs.ParseID(r.Header.Get("Rubato-Run-Id"))
		if err != nil {
			t.Error(err)
		}
		h.arrived <- id
		c.AwaitHangup()
		h.gone <- id
	})
	return h
}

// cancel asks for the end of a run, as the API does in a process of its own.
func (b *bundle) cancel(t *testing.T, id runs.ID) error {
	t.Helper()
	_, err := b.runs.Cancel(t.Context(), runs.Cancel{By: auditlog.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}, RunID: id, Reason: "wrong dates"})
	return err
}

// looking counts how often a worker looks for runs to cancel.
func (b *bundle) looking(count *atomic.Int32) func(*dispatch.Config) {
	return b.with(&faultyExecutions{cancels: func(next func() ([]dispatch.Cancel, error)) ([]dispatch.Cancel, error) {
		count.Add(1)
		return next()
	}})
}

// TestACanceledRunHangsUpAndEnds cancels a request that its target would never answer, heard of by
// message and by looking alone.
func TestACanceledRunHangsUpAndEnds(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]bool{"ByMessage": true, "ByLooking": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			target := startHanging(t)
			e := b.register(t, target.Target, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 3 })
			p := b.work(t, nil)
			bystander := b.work(t, nil)
			if listen {
				b.listen(t, p)
				b.listen(t, bystander)
			}
			id := waittest.Receive(t, target.arrived)
			require.NoError(t, b.cancel(t, id))
			require.Equal(t, id, waittest.Receive(t, target.gone))
			b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'canceled' AND reason_code = 'canceled_by_user' AND error = 'canceled by tester: wrong dates'")
			p.stop(t)
			bystander.stop(t)

			state := b.state(t, e)
			require.Nil(t, state.Running)
			require.Zero(t, state.FailureCount, "a user is not the target's failure")
			require.Equal(t, 1, state.Due.Attempt, "what a user ended is not tried again")
			require.False(t, state.Due.At.Before(e.State.Due.At.Add(time.Hour)), "a late start moves the grid")
			require.Len(t, target.Requests(), 1)
			require.Equal(t, errs.Conflict, errs.CodeOf(b.cancel(t, id)))
			require.Zero(t, query[int](t, b, "SELECT count(*) FROM run_events WHERE kind = 'late_result'"))
		})
	}
}

// TestAMessageCancelsAtOnce cancels several times in a row on a worker that does not poll for
// cancels.
func TestAMessageCancelsAtOnce(t *testing.T) {
	t.Parallel()
	const rounds = 4
	b := setup(t)
	target := startHanging(t)
	p := b.work(t, dispatch.HearCancels)
	b.listen(t, p)
	for range rounds {
		b.register(t, target.Target, nil)
		id := waittest.Receive(t, target.arrived)
		require.NoError(t, b.cancel(t, id))
		waittest.Receive(t, target.gone)
	}
	b.await(t, rounds, "SELECT count(*) FROM runs WHERE status = 'canceled'")
	p.stop(t)
}

// TestAnIdleWorkerDoesNotLook has nothing under way to cancel.
func TestAnIdleWorkerDoesNotLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var looked atomic.Int32
	p := b.work(t, b.looking(&looked))
	b.await(t, 1, "SELECT count(*) FROM workers WHERE heartbeat_at > started_at + interval '3 s'")
	require.Zero(t, looked.Load())
	p.CancelRequested([16]byte{9})
	p.CancelRequested([16]byte{})
	waittest.Until(t, func() bool { return looked.Load() > 0 }, "a message makes it look all the same")
	p.stop(t)
	require.EqualValues(t, 1, looked.Load(), "only the one that is for it, or for all")
}

// TestARunThatIsCanceledBeforeItIsSentSendsNothing cancels between the commit of the start and the
// request.
func TestARunThatIsCanceledBeforeItIsSentSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.register(t, target, nil)
	var p *process
	ready, looked := make(chan struct{}), make(chan int, 100)
	p = b.work(t, b.with(&faultyExecutions{
		start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
			started, err := next()
			<-ready
			for _, s := range started {
				if err := b.cancel(t, s.RunID); err != nil {
					return nil, err
				}
			}
			// The second look comes after the first one was handled.
			for found := 0; found < 2; {
				p.CancelRequested([16]byte{})
				found += <-looked
			}
			return started, err
		},
		cancels: func(next func() ([]dispatch.Cancel, error)) ([]dispatch.Cancel, error) {
			list, err := next()
			looked <- len(list)
			return list, err
		},
	}))
	close(ready)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'canceled'")
	p.stop(t)
	require.Empty(t, target.Requests())
	require.Equal(t, "nothing was sent: canceled by tester: wrong dates", query[string](t, b, "SELECT error FROM runs"))
	next := e.State.Due.At.Add(time.Hour)
	require.WithinRange(t, b.state(t, e).Due.At, next, next.Add(time.Minute), "a start that is late on a busy machine moves what follows")
}

// TestACancelWhileConnectingSendsNothing has a target that takes a connection and never agrees on
// TLS.
func TestACancelWhileConnectingSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval, spec.Method = "mute", "https://"+l.Addr().String()+"/", time.Hour, "POST"
	e, _, err := b.service.Register(t.Context(), tenant, spec)
	require.NoError(t, err)
	p := b.work(t, nil)
	b.listen(t, p)
	conn := waittest.Receive(t, accepted)
	defer conn.Close()
	require.NoError(t, b.cancel(t, runs.NewID(e.State.Due.Slot, e.ID, 1, 0)))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'canceled' AND reason_code = 'canceled_by_user'")
	p.stop(t)
}

// TestACancelAgainstAnAnswerHasOneEnd lets targets answer just as the runs are canceled. Each run
// has one end, which the race decides, and a later cancel is refused.
func TestACancelAgainstAnAnswerHasOneEnd(t *testing.T) {
	t.Parallel()
	const count = 240
	b := setup(t)
	target := startGated(t)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots = 4 })
	b.listen(t, p)
	for range count {
		b.register(t, target.Target, func(s *endpoints.Spec) { s.Idempotent = true; s.Retry.MaxAttempts = 3 })
	}
	refused := 0
	for n := range count {
		id, err := runs.ParseID(waittest.Receive(t, target.arrived).Header.Get("Rubato-Run-Id"))
		require.NoError(t, err)
		time.AfterFunc(time.Duration((n%12)*(n%12))*300*time.Microsecond, func() { target.letGo <- struct{}{} })
		if err := b.cancel(t, id); err != nil {
			require.Equal(t, errs.Conflict, errs.CodeOf(err), "%v", err)
			refused++
		}
	}
	b.awaitTimely(t, count)
	p.stop(t)
	succeeded := query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	require.Equal(t, count, query[int](t, b, "SELECT count(DISTINCT id) FROM runs WHERE status IN ('succeeded', 'canceled')"))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM run_events WHERE kind <> 'cancel_requested'"), "no answer was late")
	require.Equal(t, count-refused, query[int](t, b, "SELECT count(*) FROM run_events WHERE kind = 'cancel_requested'"))
	require.Zero(t, query[int](t, b, `SELECT count(*) FROM runs r WHERE status = 'canceled'
		AND NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = r.id)`), "nothing is canceled that nobody asked to")
	require.Positive(t, succeeded)
	require.Less(t, succeeded, count, "the race goes both ways")
	t.Logf("%d succeeded, %d were canceled; %d cancels came too late", succeeded, count-succeeded, refused)
}

// TestADrainingWorkerStillCancels waits for a request that only a cancel ends.
func TestADrainingWorkerStillCancels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startHanging(t)
	b.register(t, target.Target, nil)
	p := b.work(t, nil)
	id := waittest.Receive(t, target.arrived)
	p.cancel()
	b.await(t, 1, "SELECT count(*) FROM workers WHERE state = 'draining'")
	require.NoError(t, b.cancel(t, id))
	waittest.Receive(t, target.gone)
	p.wait(t)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'canceled'"))
}

// TestACancelIsFoundWhenTheDatabaseIsBack fails the first looks.
func TestACancelIsFoundWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startHanging(t)
	b.register(t, target.Target, nil)
	var looked atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{cancels: func(next func() ([]dispatch.Cancel, error)) ([]dispatch.Cancel, error) {
		if looked.Add(1) == 1 {
			return nil, errAway
		}
		return next()
	}}))
	require.NoError(t, b.cancel(t, waittest.Receive(t, target.arrived)))
	waittest.Receive(t, target.gone)
	p.stop(t)
	require.Greater(t, looked.Load(), int32(1))
}
