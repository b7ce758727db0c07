package governor

import "time"

const (
	// longWait is how long a target may hold back an endpoint by Retry-After whatever its interval is. One bad header must not end an
	// endpoint for a year.
	retryAfterCap = time.Hour
	// waitSlack is how much longer an hour may look: Retry-After counts from the answer, and the end of a run may be put earlier, to the
	// database's clock.
	retryAfterSlack = time.Second
)

// AsksForLong reports whether a target asks to wait for over an hour after the end of a run. Such a wait may be cut, and is worth a notice.
func ExceedsRetryAfterCap(asked, ended time.Time) bool {
	return asked.Sub(ended) > retryAfterCap+retryAfterSlack
}

// CutWait returns the instant up to which a Retry-After holds back an endpoint after the end of a run, in whole milliseconds where it is not
// the one asked for: at most an hour, as long as the longest backoff of its interval, or its maximum, whichever is longest. Usual is the
// distance of its due times without clamps; not positive: unknown.
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
