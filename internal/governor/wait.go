package governor

import "time"

// longestUsualWait is how long a target may hold back an endpoint by Retry-After whatever its interval is. One bad header must not end an
// endpoint for a year.
const longestUsualWait = time.Hour

// LongestWait returns how long a Retry-After may hold back an endpoint after a run: an hour, as long as the longest backoff of its
// interval, or its maximum, whichever is longest. usual is the distance of its due times; not positive: unknown.
func LongestWait(usual, most time.Duration) time.Duration {
	longest := max(longestUsualWait, most)
	if usual > 0 {
		longest = max(longest, backoff(usual, maxDoublings))
	}
	return longest
}
