package client

// Failed reports whether a run ended unsuccessfully: failed, timed_out or lost. A skipped or
// canceled run has not failed.
func (s RunStatus) Failed() bool {
	return s == RunStatusFailed || s == RunStatusTimedOut || s == RunStatusLost
}
