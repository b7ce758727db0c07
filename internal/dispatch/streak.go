package dispatch

import (
	"fmt"
	"sync"
	"time"
)

// longStreak is how long something fails before the worker counts as one that cannot do its work: as long as claims may.
const longStreak = 3 * time.Second

// streak remembers since when every try of something has failed. It is safe for concurrent use.
type streak struct {
	every time.Duration // how far apart tries are at most, while there is something to try

	mu    sync.Mutex
	first time.Time // of the failures in a row; zero: the last try succeeded
	last  time.Time
}

// note takes in how a try went.
func (s *streak) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		s.first = time.Time{}
	case s.first.IsZero() || now.Sub(s.last) > s.every: // Nothing was tried meanwhile.
		s.first = now
	}
	s.last = now
}

// long returns an error where tries have failed for long and go on.
func (s *streak) long(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.first.IsZero() || now.Sub(s.first) < longStreak || now.Sub(s.last) > s.every {
		return nil
	}
	return fmt.Errorf("%s for more than %s", what, longStreak)
}
