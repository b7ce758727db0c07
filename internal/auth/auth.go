// Package auth implements authentication and authorization: API keys, their principals, and scopes.
//
// A generated key has 260 random bits, so it is stored as a plain SHA-256: slow hashes protect
// guessable passwords, and here they would only let attackers use up CPU time. The database is
// authoritative; an [Authenticator] may trust a revoked key for as long as its cache keeps it,
// which is a few seconds.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"
)

// Scope is the permission of a key: read, write or admin. Each scope includes the previous ones.
type Scope string

// The scopes.
const (
	Read  Scope = "read"  // see everything of the tenant
	Write Scope = "write" // register, edit and operate endpoints
	Admin Scope = "admin" // administer keys, read the audit log
)

// rank orders scopes; anything unknown is 0 and allows nothing.
func (s Scope) rank() int {
	switch s {
	case Read:
		return 1
	case Write:
		return 2
	case Admin:
		return 3
	default:
		return 0
	}
}

// Valid reports whether s is a known scope.
func (s Scope) Valid() bool { return s.rank() > 0 }

// Principal is the authenticated caller of an API key: its tenant, key and scopes.
type Principal struct {
	TenantID [16]byte
	KeyID    [16]byte
	Name     string // of the key; the ledger keeps it as the author of changes
	Scopes   []Scope
	// Left is the remaining validity of the secret, counted from the lookup, if it is less than an
	// hour; 0: longer.
	Left time.Duration
}

// DefaultTenant returns the tenant of the operator: of keys that are created without a tenant.
func DefaultTenant() [16]byte { return [16]byte{15: 1} }

// Operates reports whether the principal belongs to the operator's tenant, so that it may give
// orders that concern every tenant.
func (p Principal) Operates() bool { return p.TenantID == DefaultTenant() }

// May reports whether the principal holds a scope, itself or through a wider one.
func (p Principal) May(needed Scope) bool {
	if !needed.Valid() {
		return false
	}
	for _, held := range p.Scopes {
		if held.rank() >= needed.rank() {
			return true
		}
	}
	return false
}

// Params is a key that must exist.
type Params struct {
	Key    string // the secret; only its [Hash] and its [Prefix] may be kept
	Name   string
	Scopes []Scope
}

const (
	keyPrefix   = "rbt_" // lets people and secret scanners recognise a key
	shownPrefix = len(keyPrefix) + 4
)

// NewKey returns a new random key. Show it once and store only its [Hash].
func NewKey() string { return keyPrefix + strings.ToLower(rand.Text()+rand.Text()) }

// Hash returns the stored form of a key.
func Hash(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }

// Prefix returns the part of a key that may be shown, so that keys can be distinguished. For a
// short key, which the operator chose by hand, it is empty, because every character would reveal
// much of the secret.
func Prefix(key string) string {
	if len(key) < 4*shownPrefix {
		return ""
	}
	return key[:shownPrefix]
}
