package openai

import (
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// maxFailures is how many calls in a row may fail before the service is left alone.
const maxFailures = 3

// newBreaker returns a breaker that opens after maxFailures failures in a row, for rest; then one call tries.
func newBreaker(rest time.Duration) circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(maxFailures).
		WithSuccessThreshold(1).
		WithDelay(rest).
		Build()
}

// counts reports whether a failure is one of the service, for which everybody has to rest. A service that asks to wait is well, and so is
// one that denies a request or answers what cannot be read: what one tenant asks must not keep the model from others, see [rests].
func (f *Failure) counts() bool {
	switch f.Kind {
	case Throttled, Rested, Denied, Unreadable, TooLarge:
		return false
	case Unreachable, TimedOut, Unavailable:
		return true
	}
	return true
}
