package openai

import (
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// newServiceBreaker returns the circuit breaker of the service. [breakerSet] decides when it opens.
// After the cooldown it is half-open for one trial request.
func newServiceBreaker(rest time.Duration) circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(1).
		WithSuccessThreshold(1).
		WithDelay(rest).
		Build()
}

// tripsBreaker reports whether a failed trial opens the breaker again. A service that throttles,
// denies a request or returns an invalid completion is reachable, so it does not.
func (f *Failure) tripsBreaker() bool {
	switch f.Kind {
	case Throttled, BreakerOpen, Denied, Unreadable, TooLarge:
		return false
	case Unreachable, TimedOut, Unavailable:
		return true
	}
	return true
}
