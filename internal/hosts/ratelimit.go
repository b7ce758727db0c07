package hosts

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ResetAfter returns for how long a target wants no request, by the headers of an answer that says
// that no request is left of a quota: RateLimit in the forms of the IETF drafts,
// RateLimit-Remaining with RateLimit-Reset, and the same with the prefix X-. It returns zero if
// there is none or if requests are left.
func ResetAfter(h http.Header, now time.Time) time.Duration {
	if text := h.Get("RateLimit"); text != "" {
		return exhausted(parameter(text, "remaining", "r"), parameter(text, "reset", "t"), now)
	}
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-"} {
		if left := h.Get(prefix + "Remaining"); left != "" {
			return exhausted(left, h.Get(prefix+"Reset"), now)
		}
	}
	return 0
}

// epoch is the least number of a reset that is an instant in Unix seconds, not a wait in seconds.
const epoch = 1_000_000_000

// exhausted returns the wait for the reset of a quota of which nothing remains.
func exhausted(remaining, reset string, now time.Time) time.Duration {
	left, err := strconv.ParseFloat(strings.TrimSpace(remaining), 64)
	if err != nil || left > 0 {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(reset), 64)
	if err != nil || !(seconds > 0 && seconds < 100*epoch) {
		return 0
	}
	if seconds >= epoch {
		seconds -= float64(now.UnixMilli()) / 1000
	}
	return min(max(0, time.Duration(seconds*float64(time.Second))), maxRetryAfter)
}

// parameter returns the value of the first parameter of a header with one of the names.
func parameter(header string, names ...string) string {
	for part := range strings.FieldsFuncSeq(header, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		for _, one := range names {
			if strings.EqualFold(name, one) {
				return value
			}
		}
	}
	return ""
}
