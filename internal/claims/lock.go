package claims

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLockLost is the cause of the context of a run whose lock is gone.
var ErrLockLost = errors.New("the lock of the run was lost")

// ErrLockOver is an [ErrLockLost]: nobody took the lock away, but it could not be extended before it was over on its holder's clock or
// on the database's.
var ErrLockOver = fmt.Errorf("it was over before it could be extended: %w", ErrLockLost)

// lockMargin is how long before the database the holder takes its lock to be over: long enough to cancel a request.
const lockMargin = time.Second

// Lock is the right to go on with a started run, as its holder sees it. It is not safe for concurrent use; the heartbeater owns
// the locks that it extends.
type Lock struct {
	Held
	ends   time.Time // on the holder's monotonic clock
	cancel context.CancelCauseFunc
}

// NewLock returns the lock of a run that was granted for ttl by a statement sent at an instant of the holder's clock. cancel ends
// the run's request when the lock is gone.
func NewLock(held Held, sent time.Time, ttl time.Duration, cancel context.CancelCauseFunc) *Lock {
	return &Lock{Held: held, ends: Ends(sent, ttl), cancel: cancel}
}

// Ends returns when a lock is over for its holder, by its clock, that was granted for ttl by a statement sent at an instant of it.
func Ends(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl - lockMargin) }

// Outlasts reports whether an execution of at most limit may outlast a lock granted for ttl, and so needs heartbeats.
func Outlasts(limit, ttl time.Duration) bool { return limit > ttl-lockMargin }

// extend moves the lock on after a heartbeat sent at an instant. A lock that has ended is not revived.
func (l *Lock) extend(sent time.Time, ttl time.Duration) {
	if sent.Before(l.ends) {
		l.ends = Ends(sent, ttl)
	}
}

// over reports whether the lock has ended on the holder's clock.
func (l *Lock) over(now time.Time) bool { return !now.Before(l.ends) }
