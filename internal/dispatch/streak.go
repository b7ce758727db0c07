package dispatch

import (
	"fmt"
	"sync"
	"time"
)

// longStreak is how long something fails before the worker counts as one that cannot do its work: as long as claims may.
const longStreak = 3 * time.Second

// tellAgain is how long after a failure was logged the next one in a row is: while the database is away, several are met in a second.
const tellAgain = 10 * time.Second

// streak remembers since when every try of something has failed. It is safe for concurrent use.
type streak struct {
	every time.Duration // how far apart tries are at most, while there is something to try

	mu    sync.Mutex
	first time.Time // of the failures in a row; zero: the last try succeeded
	last  time.Time
	told  time.Time // when note said last that a failure of this row is worth it
}

// note takes in how a try went. It reports whether that is worth a line in the log: the first failure in a row is, and another one when the
// line before is old.
func (s *streak) note(err error) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		s.first = time.Time{}
	case s.first.IsZero():
		s.first, tell = now, true
	default:
		tell = now.Sub(s.told) >= tellAgain
	}
	if s.last = now; tell {
		s.told = now
	}
	return tell
}

// lapse forgets a row of failures once every has passed without another try: had there been anything to try, it would have been tried. It is
// for a moment at which the database has answered. While it is away, that nobody tries proves nothing.
func (s *streak) lapse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) > s.every {
		s.first = time.Time{}
	}
}

// long returns an error where tries have failed for long.
func (s *streak) long(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() || time.Since(s.first) < longStreak {
		return nil
	}
	return fmt.Errorf("%s for more than %s", what, longStreak)
}
