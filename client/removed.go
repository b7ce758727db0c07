package client

// Removed reports whether a warning says what a call took away, as a clear of hints or an undo does, or that nothing was in force. Such a
// warning is the result that was asked for.
func (e FieldError) Removed() bool {
	switch e.Code {
	case "hint_removed", "pause_removed", "nothing_in_force":
		return true
	default:
		return false
	}
}
