package egress

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const maxRetryAfter = 366 * 24 * time.Hour

// RetryAfter returns the instant of the Retry-After header, and whether there is one. The instant
// is between now and 366 days later. If there are several values, the first valid one counts.
func RetryAfter(h http.Header, now time.Time) (time.Time, bool) {
	for _, value := range h.Values("Retry-After") {
		if wait, ok := retryDelay(strings.Trim(value, " \t"), now); ok {
			return now.Add(min(max(wait, 0), maxRetryAfter)), true
		}
	}
	return time.Time{}, false
}

// retryDelay parses one value: seconds or a date. Seconds beyond the maximum return the maximum.
func retryDelay(value string, now time.Time) (time.Duration, bool) {
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return at.Sub(now), true
}
