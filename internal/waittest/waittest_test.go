package waittest_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// failureRecorder is a test in a binary with a deadline. It records its failure.
type failureRecorder struct {
	*testing.T

	deadline time.Time
	failure  string
}

func (d *failureRecorder) Deadline() (time.Time, bool) { return d.deadline, !d.deadline.IsZero() }

func (d *failureRecorder) Fatalf(format string, args ...any) {
	d.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// attempt runs a wait in a goroutine of its own, as the runner of tests does, and returns how long
// it took.
func (d *failureRecorder) attempt(wait func()) time.Duration {
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		wait()
	}()
	<-ended
	return time.Since(began)
}

func TestAWaitEndsWithItsEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &failureRecorder{T: t, deadline: time.Now().Add(10 * time.Minute)}
		begun, news := time.Now(), make(chan int)
		go func() {
			<-time.After(4 * time.Minute)
			news <- 7
		}()
		got := 0
		took := d.attempt(func() { got = waittest.Receive(d, news) })
		require.Equal(t, 7, got)
		require.Equal(t, 4*time.Minute, took)

		looks := 0
		took = d.attempt(func() {
			waittest.Until(d, func() bool { looks++; return time.Since(begun) >= 6*time.Minute })
		})
		require.InDelta(t, 2*time.Minute, took, float64(20*time.Millisecond))
		require.InDelta(t, 2*time.Minute/(20*time.Millisecond), looks, 10)
		require.Zero(t, d.attempt(func() { waittest.Until(d, func() bool { return true }) }), "it looks at once")
		require.Empty(t, d.failure)
	})
}

func TestFailedWaitLeavesHalfOfTheTime(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(*failureRecorder){
		"waited in vain: for 3 runs": func(d *failureRecorder) { waittest.Until(d, func() bool { return false }, "for %d runs", 3) },
		"nothing came: no answer":    func(d *failureRecorder) { waittest.Receive[int](d, nil, "no answer") },
		"nothing came":               func(d *failureRecorder) { waittest.Receive[int](d, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &failureRecorder{T: t, deadline: time.Now().Add(10 * time.Minute)}
				require.InDelta(t, 5*time.Minute, d.attempt(func() { wait(d) }), float64(20*time.Millisecond))
				require.Equal(t, name, d.failure)
				d.deadline = time.Time{}
				require.InDelta(t, 10*time.Minute, d.attempt(func() { wait(d) }), float64(20*time.Millisecond), "no deadline")
			})
		})
	}
}

func TestAContextEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := waittest.Context(&failureRecorder{T: t, deadline: time.Now().Add(time.Minute)})
		begun := time.Now()
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		require.Equal(t, 30*time.Second, time.Since(begun))
	})
}
