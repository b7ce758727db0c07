package governor

import "time"

// AfterMinimum moves an instant to where the minimum lets another run start after the last one. A minimum that is not positive is none,
// and the zero time is no start.
func AfterMinimum(at, lastStart time.Time, least time.Duration) time.Time {
	if least <= 0 || lastStart.IsZero() {
		return at
	}
	return later(at, add(lastStart, least))
}

// LastStart returns the last start as [Input] has it: only where a minimum is set and the anchor is earlier.
func LastStart(start, anchor time.Time, least time.Duration) time.Time {
	if least > 0 && start.After(anchor) {
		return start
	}
	return time.Time{}
}
