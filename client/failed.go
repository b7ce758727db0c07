package client

// Failed reports whether a run ended without a success that it was meant to have: failed, timed_out or lost.
func (s RunStatus) Failed() bool {
	return s == RunStatusFailed || s == RunStatusTimedOut || s == RunStatusLost
}
