package egress

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// NextRun returns the instant of the header Rubato-Next, in seconds or as an HTTP date like
// Retry-After, and whether there is one. A date in the past returns now.
func NextRun(h http.Header, now time.Time) (time.Time, bool) {
	return waitHeader(h, "Rubato-Next", now)
}

// FreshFor returns how long an answer stays fresh: max-age of Cache-Control minus Age (RFC 9111
// section 4.2). ok is false without a valid max-age, and if no-store or no-cache withdraws it. If
// max-age is repeated, the first one counts.
func FreshFor(h http.Header) (fresh time.Duration, ok bool) {
	for _, value := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			name, argument, _ := strings.Cut(strings.Trim(directive, " \t"), "=")
			switch strings.ToLower(name) {
			case "no-store", "no-cache":
				return 0, false
			case "max-age":
				if !ok {
					fresh, ok = deltaSeconds(strings.Trim(argument, `"`))
				}
			}
		}
	}
	if !ok {
		return 0, false
	}
	if age, given := deltaSeconds(strings.Trim(h.Get("Age"), " \t")); given {
		fresh -= age
	}
	return max(fresh, 0), true
}

// deltaSeconds parses a number of seconds. A number beyond the maximum returns the maximum.
func deltaSeconds(value string) (time.Duration, bool) {
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return 0, false
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds > int64(maxRetryAfter/time.Second) {
		return maxRetryAfter, true
	}
	return time.Duration(seconds) * time.Second, true
}
