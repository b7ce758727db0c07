package governor

import "time"

// AfterMinimum returns at, or the end of the minimum after the last start if that is later. There
// is no minimum if least is not positive or lastStart is zero.
func AfterMinimum(at, lastStart time.Time, least time.Duration) time.Time {
	if least <= 0 || lastStart.IsZero() {
		return at
	}
	return later(at, add(lastStart, least))
}

// LastStart returns the start for [Input]: only if there is a minimum and the anchor is earlier.
func LastStart(start, anchor time.Time, least time.Duration) time.Time {
	if least > 0 && start.After(anchor) {
		return start
	}
	return time.Time{}
}
