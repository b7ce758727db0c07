// Package untrusted sanitizes text of unknown origin for a reader that might obey it: a language
// model, or a person at a terminal. Invisible characters are removed, text that looks like a secret
// is redacted, and the size is bounded.
//
// It does not detect attacks, because detection cannot be complete. A reader must be unable to do
// harm with any text.
package untrusted
