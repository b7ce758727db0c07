package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"rubato/internal/errs"
)

const (
	// trust is the lifetime of a cache entry: long enough that a busy client costs one
	// lookup every few seconds, short enough that a revocation takes effect within seconds.
	trust = 5 * time.Second

	// maxTrusted bounds the cache. Only keys that exist enter it, so guessing cannot fill it.
	maxTrusted = 4096

	// maxKey bounds the length of a key to be hashed, in bytes.
	maxKey = 512
)

// Store finds keys.
type Store interface {
	// FindKey returns the principal of the key with a hash. The error is an [errs.NotFound] if no
	// such key exists, or if it expired or was revoked. It records the last use of the key, to the
	// minute.
	FindKey(ctx context.Context, hash [sha256.Size]byte) (Principal, error)
}

// ThrottledError is the error of a key that is not looked up now, because its client address, or
// all addresses together, have sent too many wrong ones.
type ThrottledError struct {
	Wait time.Duration // until the next look-up is free
}

// Error says how long to wait.
func (t *ThrottledError) Error() string {
	return fmt.Sprintf("too many wrong API keys have come from this address; try again in %d s", t.Seconds())
}

// Seconds returns Wait in whole seconds, rounded up.
func (t *ThrottledError) Seconds() int { return int(math.Ceil(t.Wait.Seconds())) }

// Authenticator turns keys into principals. It is safe for concurrent use.
type Authenticator struct {
	store    Store
	attempts *Attempts

	mu      sync.Mutex
	trusted map[[sha256.Size]byte]trustedKey
}

type trustedKey struct {
	principal Principal
	until     time.Time
}

// NewAuthenticator returns an authenticator over a store.
func NewAuthenticator(store Store) *Authenticator {
	return &Authenticator{
		store:    store,
		attempts: NewAttempts(),
		trusted:  map[[sha256.Size]byte]trustedKey{},
	}
}

// Authenticate returns the principal of a key. The error is an [errs.Unauthorized] if the key is
// invalid, and that of the store if the lookup failed. Keys are compared by their hash, so that the
// response time reveals nothing about them.
func (a *Authenticator) Authenticate(ctx context.Context, key string) (Principal, error) {
	if !plausible(key) {
		return Principal{}, unauthorized()
	}
	return a.Recognize(ctx, Hash(key))
}

// AuthenticateFrom is [Authenticator.Authenticate] for a client address, with a bound on what wrong
// keys cost the database: once an address, or all of them together, have sent too many, the error
// is a [ThrottledError] without a look-up. Keys that were valid before are looked up always, so
// that a client does not suffer from wrong keys of others behind the same proxy.
func (a *Authenticator) AuthenticateFrom(ctx context.Context, key, address string) (Principal, error) {
	if !plausible(key) {
		return Principal{}, unauthorized()
	}
	hash := Hash(key)
	if !a.knows(hash) {
		if wait := a.attempts.Allow(address, time.Now()); wait > 0 {
			return Principal{}, &ThrottledError{Wait: wait}
		}
	}
	p, err := a.Recognize(ctx, hash)
	if err != nil && errs.CodeOf(err) == errs.Unauthorized {
		a.attempts.Failed(address, time.Now())
	}
	return p, err
}

// knows reports whether a key was ever found, even if its cache entry has expired.
func (a *Authenticator) knows(hash [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, found := a.trusted[hash]
	return found
}

// forgetHash drops an inactive key from the cache.
func (a *Authenticator) forgetHash(hash [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.trusted, hash)
}

// Recognize returns the principal of the key with a hash, like Authenticate. It serves callers that
// stored the hash of a key instead of the key, such as sessions, so that they end with the key.
func (a *Authenticator) Recognize(ctx context.Context, hash [sha256.Size]byte) (Principal, error) {
	if p, ok := a.recall(hash); ok {
		return p, nil
	}
	asked := time.Now() // Trust counts from the query, because a slow database must not prolong it.
	p, err := a.store.FindKey(ctx, hash)
	switch {
	case errs.CodeOf(err) == errs.NotFound && err != nil:
		a.forgetHash(hash) // So a revoked key is throttled as any wrong one.
		return Principal{}, unauthorized()
	case err != nil:
		return Principal{}, err
	}
	a.remember(hash, p, asked)
	return p, nil
}

func (a *Authenticator) recall(hash [sha256.Size]byte) (Principal, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.trusted[hash]
	if !ok || !time.Now().Before(found.until) {
		return Principal{}, false
	}
	return found.principal, true
}

// Forget makes the authenticator ask the store about a key again. Other processes go on trusting it
// for at most 5 s.
func (a *Authenticator) Forget(key KeyID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.trusted, func(_ [sha256.Size]byte, t trustedKey) bool { return t.principal.KeyID == key })
}

func (a *Authenticator) remember(hash [sha256.Size]byte, p Principal, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.trusted) >= maxTrusted {
		a.forget(now)
	}
	until := now.Add(trust)
	if p.Left > 0 && p.Left < trust {
		until = now.Add(p.Left) // The cache entry must not outlive the key.
	}
	a.trusted[hash] = trustedKey{principal: p, until: until}
}

// forget makes room: everything that is out of date goes, and all the rest where that is not
// enough. The cost of starting over is one lookup per key.
func (a *Authenticator) forget(now time.Time) {
	for hash, k := range a.trusted {
		if !now.Before(k.until) {
			delete(a.trusted, hash)
		}
	}
	if len(a.trusted) >= maxTrusted {
		clear(a.trusted)
	}
}

// plausible reports whether key can be one at all: visible ASCII of a sane length.
func plausible(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

func unauthorized() error {
	return errs.New(errs.Unauthorized, "", "the API key is not valid; send one as: Authorization: Bearer <key>")
}
