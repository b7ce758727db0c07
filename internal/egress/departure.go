package egress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lastHeader is how long a request over HTTP/2 that was given up late may take to be known as written: who writes it may just have looked
// whether it still may.
const lastHeader = 50 * time.Millisecond

// departure is a request on its way into a session of HTTP/2. Others write there too, and while the target reads nothing, it waits behind
// them: so it may be late although there was time when it came.
type departure struct {
	begun chan struct{} // closed when its header is written, which nothing ends any more
	once  sync.Once
	late  atomic.Bool
	end   func() // lets go of what waits for it; to be called when its answer is over, or will not come
}

// depart begins a departure that may begin until sendBy; zero: at any time. The context ends with ctx, and where the time is over first.
func depart(ctx context.Context, sendBy time.Time) (context.Context, *departure) {
	ctx, cancel := context.WithCancel(ctx)
	d := &departure{begun: make(chan struct{}), end: cancel}
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

// begin says that the header is written. It may be called again.
func (d *departure) begin() { d.once.Do(func() { close(d.begun) }) }

// left reports whether the header has begun to leave, after the departure has ended in an error.
func (d *departure) left() bool {
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
