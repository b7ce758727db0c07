package egress

import (
	"net/http"
	"strings"
	"time"
)

const maxRetryAfter = 366 * 24 * time.Hour

// RetryAfter returns the instant of the Retry-After header, and whether there is one. The instant
// is between now and 366 days later. If there are several values, the first valid one counts.
func RetryAfter(h http.Header, now time.Time) (time.Time, bool) {
	return waitHeader(h, "Retry-After", now)
}

// waitHeader returns the instant of a header that holds seconds or a date.
func waitHeader(h http.Header, name string, now time.Time) (time.Time, bool) {
	for _, value := range h.Values(name) {
		if wait, ok := retryDelay(strings.Trim(value, " \t"), now); ok {
			return now.Add(min(max(wait, 0), maxRetryAfter)), true
		}
	}
	return time.Time{}, false
}

// retryDelay parses one value: seconds or a date.
func retryDelay(value string, now time.Time) (time.Duration, bool) {
	if wait, seconds := deltaSeconds(value); seconds {
		return wait, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return at.Sub(now), true
}
