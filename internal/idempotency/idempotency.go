// Package idempotency knows how a request that names an Idempotency-Key is carried out once. The key is reserved before the request
// is carried out, marked in the very transaction that carries it out, and completed with the answer after that. So whatever breaks in
// between, a second request finds out whether the first one did anything.
package idempotency

import (
	"context"
	"crypto/sha256"
)

// MaxBody bounds the body of an answer that is kept, in bytes. No route with a key answers with more.
const MaxBody = 1 << 20

// Key names a request for as long as keys are kept. The header itself is not kept.
type Key struct {
	TenantID [16]byte
	Route    string            // method and template
	Hash     [sha256.Size]byte // of the header
}

// Attempt is one request under a key.
type Attempt struct {
	Key

	Token       [16]byte          // of this attempt; a newer one fences it
	Fingerprint [sha256.Size]byte // of everything that was asked
}

// Answer is what was answered to a request that succeeded.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
	Sealed bool // the body is encrypted
}

// State is how an attempt to reserve a key ended.
type State int

// The states.
const (
	Reserved State = iota + 1 // the caller is to carry the request out
	Answered                  // an earlier request was: its answer is known
	Busy                      // an earlier request is under way
	Unknown                   // an earlier request was carried out, and its answer was lost
	Other                     // the key was used for another request
)

type attemptKey struct{}

// With returns a context whose write transactions mark an attempt as carried out, and fail where it is fenced.
func With(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// From returns the attempt that a context belongs to, if any.
func From(ctx context.Context) (Attempt, bool) {
	a, found := ctx.Value(attemptKey{}).(Attempt)
	return a, found
}
