// Package untrusted prepares what strangers wrote for a reader that might take it for instructions: a language model, or a person before
// a terminal. Text loses every character that is not seen, what looks like a secret is taken out, and what is left has a bounded size.
//
// It does not try to recognize attacks. Whoever needs it to has already lost: a reader must be unable to do harm whatever it reads.
package untrusted
