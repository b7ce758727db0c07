package openai

// UntrustedTokens bounds the tokens of an untrusted text.
func UntrustedTokens(text string) int64 { return untrustedTokens(text) }

// Truncate cuts a text to tokens and bytes.
func Truncate(text string, limit int64, size int) (string, bool) { return truncate(text, limit, size) }
