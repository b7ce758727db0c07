package claims

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLockLost is the cancellation cause of a run that has lost its lock.
var ErrLockLost = errors.New("the lock of the run was lost")

// ErrLockOver is an [ErrLockLost] without a new holder: the lock expired on the holder's clock or
// on the database's before it could be extended.
var ErrLockOver = fmt.Errorf("it was over before it could be extended: %w", ErrLockLost)

// lockMargin is how much earlier a lock ends for its holder than for the database, so that there is
// time to cancel a request.
const lockMargin = time.Second

// Lock is the lock of a started run, as its holder sees it. It is not safe for concurrent use. The
// heartbeater owns the locks that it extends and guards them by its mutex.
type Lock struct {
	FencedRun
	ends   time.Time // on the holder's monotonic clock
	cancel context.CancelCauseFunc
}

// NewLock returns the lock of a run that was granted for ttl by a statement sent at an instant of
// the holder's clock. The heartbeater calls cancel to end the run's request after the lock is lost.
func NewLock(held FencedRun, sent time.Time, ttl time.Duration, cancel context.CancelCauseFunc) *Lock {
	return &Lock{
		FencedRun: held,
		ends:      Ends(sent, ttl),
		cancel:    cancel,
	}
}

// Ends returns when a lock of ttl ends for its holder, on the holder's clock. sent is the instant
// at which the granting statement was sent.
func Ends(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl - lockMargin) }

// Outlasts reports whether an execution of at most limit may outlast a lock granted for ttl, and
// therefore needs heartbeats.
func Outlasts(limit, ttl time.Duration) bool { return limit > ttl-lockMargin }

// extend moves the end of the lock after a heartbeat that was sent at an instant. It does not
// revive an expired lock.
func (l *Lock) extend(sent time.Time, ttl time.Duration) {
	if sent.Before(l.ends) {
		l.ends = Ends(sent, ttl)
	}
}

// over reports whether the lock has ended on the holder's clock.
func (l *Lock) over(now time.Time) bool { return !now.Before(l.ends) }
