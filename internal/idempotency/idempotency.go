// Package idempotency makes requests with an Idempotency-Key idempotent. The key is reserved before
// the request is executed, marked in the transaction that executes it, and completed with the
// response after that. Therefore a retry after a failure in between can determine whether the first
// request had an effect.
package idempotency

import (
	"context"
	"crypto/sha256"
)

// MaxBody bounds the body of a stored response, in bytes. No route with a key returns more.
const MaxBody = 1 << 20

// Key identifies a request for the lifetime of keys. The header itself is not stored.
type Key struct {
	TenantID [16]byte
	Route    string            // method and template
	Hash     [sha256.Size]byte // of the header
}

// Attempt is one request under a key.
type Attempt struct {
	Key

	Token       [16]byte          // fencing token of this attempt; a newer one fences it
	Fingerprint [sha256.Size]byte // hash of the complete request
}

// Answer is the stored response of a successful request.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
	Sealed bool // the body is encrypted
}

// State is the outcome of an attempt to reserve a key.
type State int

// The states.
const (
	Reserved State = iota + 1 // the caller must execute the request
	Answered                  // an earlier request was executed: its response is stored
	Busy                      // an earlier request is in progress
	Unknown                   // an earlier request was executed, but its response was lost
	Other                     // the key was used for another request
)

type attemptKey struct{}

// With returns a context for an attempt. Write transactions of the context mark the attempt as
// executed. They fail if the fencing token of the attempt is no longer current, because a newer
// attempt has taken over.
func With(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// From returns the attempt that a context belongs to, if any.
func From(ctx context.Context) (Attempt, bool) {
	a, found := ctx.Value(attemptKey{}).(Attempt)
	return a, found
}
