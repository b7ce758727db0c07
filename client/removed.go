package client

// Removed reports whether a warning lists the hints or pauses that a call removed, or says that
// none was in force. Such a warning is the requested result of a clear of hints or an undo.
func (e FieldError) Removed() bool {
	switch e.Code {
	case "hint_removed", "pause_removed", "nothing_in_force":
		return true
	default:
		return false
	}
}
