package governor

import "time"

const (
	// retryAfterCap is the Retry-After that is always obeyed. Longer ones are capped, because one
	// wrong header must not stop an endpoint for a year.
	retryAfterCap = time.Hour
	// retryAfterSlack is added to the cap in comparisons. Retry-After counts from the response, and
	// the end of a run may be moved earlier to the database's clock.
	retryAfterSlack = time.Second
)

// ExceedsRetryAfterCap reports whether a target asks to wait for over an hour after the end of a
// run. Such a wait may be capped, and causes a notice.
func ExceedsRetryAfterCap(asked, ended time.Time) bool {
	return asked.Sub(ended) > retryAfterCap+retryAfterSlack
}

// CapRetryAfter returns the instant up to which a Retry-After is obeyed. The cap is the longest of
// an hour, the longest backoff and the maximum interval. A capped instant is in whole milliseconds.
// usual is the interval without clamps; not positive: unknown.
func CapRetryAfter(asked, ended time.Time, usual, most time.Duration) time.Time {
	if !ExceedsRetryAfterCap(asked, ended) {
		return asked
	}
	longest := max(retryAfterCap, most)
	if usual > 0 {
		longest = max(longest, backoff(usual, maxDoublings))
	}
	return earlier(asked, ended.Add(longest+time.Millisecond-1).Truncate(time.Millisecond))
}
