package httpapi

import (
	"fmt"
	"regexp"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// saneYears says which instants make sense where the domain sets no bounds of its own. Beyond them
// lies what JSON and databases cannot hold.
const saneYears = "must lie in the years 1970 to 9999"

func sane(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1970 && year <= 9999
}

// instantText is how RFC 3339 writes an instant: two digits for each part, a point before
// fractions, an offset of less than a day. Package time also reads an hour of one digit, a comma
// and an offset of 24 hours.
var instantText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseInstant reads an RFC 3339 instant, and nothing else.
func parseInstant(text string) (time.Time, error) {
	if !instantText.MatchString(text) {
		return time.Time{}, fmt.Errorf("%q is no RFC 3339 instant", text)
	}
	return time.Parse(time.RFC3339, text)
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

// given returns an instant of a request. The domain treats the zero time as "not given", so an
// explicit zero time becomes another instant of that year, which the domain refuses.
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

// givenSpan is [endpoints.Milliseconds] for fields in which zero means "not given": an explicit
// zero becomes a duration that the domain refuses.
func givenSpan(ms *int64) time.Duration {
	switch {
	case ms == nil:
		return 0
	case *ms == 0:
		return -1
	default:
		return endpoints.Milliseconds(*ms)
	}
}

// millis returns a duration for an answer.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
