package openai

// Theirs bounds the tokens of a text that anybody may have written.
func UntrustedTokens(text string) int64 { return untrustedTokens(text) }

// Fitting cuts a text to tokens and bytes.
func Truncate(text string, limit int64, size int) (string, bool) { return truncate(text, limit, size) }
