package httpapi

import (
	"math"
	"time"

	"rubato/internal/governor"
)

// saneYears says which instants make sense where the domain sets no bounds of its own. Beyond them lies what JSON and databases
// cannot hold.
const saneYears = "must lie in the years 1970 to 9999"

func sane(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1970 && year <= 9999
}

// shown returns an instant for an answer, nil where there is none.
func shown(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// shownDue returns a due time for an answer, nil where nothing is due until something changes.
func shownDue(t time.Time) *time.Time {
	if !t.Before(governor.Indefinite) {
		return nil
	}
	return shown(t)
}

// given returns an instant of a request. The domain takes the zero time for "not given", so who does give it gets another instant
// of that year, which the domain refuses.
func given(t *time.Time) time.Time {
	switch {
	case t == nil:
		return time.Time{}
	case t.IsZero():
		return t.Add(time.Millisecond)
	default:
		return *t
	}
}

// span returns milliseconds of a request as a duration, at the nearer end where there is no such duration.
func span(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	switch {
	case ms > most:
		return math.MaxInt64
	case ms < -most:
		return math.MinInt64
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

// givenSpan is span for fields whose zero the domain takes for "not given": who does give it gets a duration that it refuses.
func givenSpan(ms *int64) time.Duration {
	switch {
	case ms == nil:
		return 0
	case *ms == 0:
		return -1
	default:
		return span(*ms)
	}
}

// millis returns a duration for an answer.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
