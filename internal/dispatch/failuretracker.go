package dispatch

import (
	"fmt"
	"sync"
	"time"
)

// failingAfter is the duration of consecutive failures after which a health check fails. It equals
// the default limit of the check of claims.
const failingAfter = 3 * time.Second

// logInterval is the minimum time between two log lines about consecutive failures. While the
// database is down, several failures occur in a second.
const logInterval = 10 * time.Second

// failureTracker tracks consecutive failures of one operation, for a health check and as a rate
// limiter of log lines. It is safe for concurrent use.
type failureTracker struct {
	// every is the longest time between two attempts while there is work.
	every time.Duration

	mu sync.Mutex
	// first is the time of the first consecutive failure; zero: the last attempt succeeded.
	first time.Time
	// last is the time of the last attempt.
	last time.Time
	// logged is the time of the last failure that was to be logged.
	logged time.Time
}

// record records the result of an attempt. It reports whether the failure should be logged: the
// first consecutive failure should, and a later one if the last line is older than logInterval.
func (s *failureTracker) record(err error) (logIt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		s.first = time.Time{}
	case s.first.IsZero():
		s.first, logIt = now, true
	default:
		logIt = now.Sub(s.logged) >= logInterval
	}
	if s.last = now; logIt {
		s.logged = now
	}
	return logIt
}

// expire clears the failures if no attempt was made for longer than every, because then there is no
// work left. Call it only after the database has answered: during an outage the absence of attempts
// proves nothing.
func (s *failureTracker) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) > s.every {
		s.first = time.Time{}
	}
}

// long returns an error if every attempt of the last failingAfter or longer has failed.
func (s *failureTracker) long(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() || time.Since(s.first) < failingAfter {
		return nil
	}
	return fmt.Errorf("%s for more than %s", what, failingAfter)
}
