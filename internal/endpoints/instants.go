package endpoints

import "time"

// laterOf returns the later one of two instants.
func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earlierOf returns the earlier one of two instants.
func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// wholeMilliseconds rounds an instant up.
func wholeMilliseconds(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}
