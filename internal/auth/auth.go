// Package auth knows who asks: API keys, the principals that they stand for, and what a scope allows.
//
// A key that we make is 260 bits of randomness, so it is kept as a plain SHA-256: slow hashes protect guessable passwords, and here they would
// only let anybody burn our CPU. The database is authoritative; an [Authenticator] may go on trusting a key that was revoked for
// as long as its cache keeps it, which is a few seconds.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"
)

// Scope is what a key may do. Each scope includes those before it: read, write, admin.
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

// Principal is who a key stands for.
type Principal struct {
	TenantID [16]byte
	KeyID    [16]byte
	Name     string // of the key; the ledger keeps it as the author of changes
	Scopes   []Scope
	// Left is how long the secret stays good, counted from when the store was asked, as far as that is less than an hour; 0: longer.
	Left time.Duration
}

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

// Params is a key that is to be made sure of.
type Params struct {
	Key    string // the secret; only its [Hash] and its [Prefix] may be kept
	Name   string
	Scopes []Scope
}

const (
	keyPrefix   = "rbt_" // lets people and secret scanners recognise a key
	shownPrefix = len(keyPrefix) + 4
)

// NewKey returns a fresh key. It is to be shown once and kept only as its [Hash].
func NewKey() string { return keyPrefix + strings.ToLower(rand.Text()+rand.Text()) }

// Hash returns what is kept of a key.
func Hash(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }

// Prefix returns the part of a key that may be shown, so that people can tell keys apart. Of a short key, which somebody chose
// by hand, it is empty: every character of it would be a good part of the secret.
func Prefix(key string) string {
	if len(key) < 4*shownPrefix {
		return ""
	}
	return key[:shownPrefix]
}
