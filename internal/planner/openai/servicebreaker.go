package openai

import (
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// newBreaker returns the breaker of the whole service. [rests] decides when it opens; after the rest one request tries.
func newServiceBreaker(rest time.Duration) circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(1).
		WithSuccessThreshold(1).
		WithDelay(rest).
		Build()
}

// counts reports whether a failure of the request that tries after a rest begins another rest. A service that asks to wait is well, and
// so is one that denies a request or answers what cannot be read.
func (f *Failure) tripsBreaker() bool {
	switch f.Kind {
	case Throttled, BreakerOpen, Denied, Unreadable, TooLarge:
		return false
	case Unreachable, TimedOut, Unavailable:
		return true
	}
	return true
}
