package egress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lastHeader bounds the wait for the trace of a late HTTP/2 request, because the transport may have
// checked the context just before it ended and may still write the header.
const lastHeader = 50 * time.Millisecond

// sendDeadline enforces the send deadline of one request on an HTTP/2 session. The request may wait
// in the session behind writes of other streams if the target reads nothing. Therefore it can miss
// the deadline although it was in time at first.
type sendDeadline struct {
	// begun is closed when the header is written. After that, the send deadline has no effect.
	begun chan struct{}
	once  sync.Once
	late  atomic.Bool
	// end releases the timer and the context. Call it after the end of the answer, or if there is
	// no answer.
	end func()
}

// startSendDeadline starts the send deadline sendBy of a request; zero: none. The returned context
// ends with ctx, or at the deadline if the header is not written by then.
func startSendDeadline(ctx context.Context, sendBy time.Time) (context.Context, *sendDeadline) {
	ctx, cancel := context.WithCancel(ctx)
	d := &sendDeadline{begun: make(chan struct{}), end: cancel}
	if sendBy.IsZero() {
		return ctx, d
	}
	limit := time.AfterFunc(time.Until(sendBy), func() {
		select {
		case <-d.begun:
		default:
			d.late.Store(true)
			cancel()
		}
	})
	d.end = func() { limit.Stop(); cancel() }
	return ctx, d
}

// begin records that the header is being written. It may be called again.
func (d *sendDeadline) begin() { d.once.Do(func() { close(d.begun) }) }

// left reports whether the header began to leave. Call it after the request has failed.
func (d *sendDeadline) left() bool {
	select {
	case <-d.begun:
		return true
	default:
	}
	if !d.late.Load() {
		return false
	}
	timer := time.NewTimer(lastHeader)
	defer timer.Stop()
	select {
	case <-d.begun:
		return true
	case <-timer.C:
		return false
	}
}
