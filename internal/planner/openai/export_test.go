package openai

// Theirs bounds the tokens of a text that anybody may have written.
func Theirs(text string) int64 { return theirs(text) }

// Fitting cuts a text to tokens and bytes.
func Fitting(text string, limit int64, size int) (string, bool) { return fitting(text, limit, size) }
