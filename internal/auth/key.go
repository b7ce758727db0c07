package auth

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/ids"
)

// KeyID is the permanent ID of a key. It is a UUIDv7, so that keys sort by creation time.
type KeyID [16]byte

var idKind = ids.Kind{Prefix: "key_", Noun: "key"}

// ParseKeyID reads the form that String writes. A text that is not an ID is an [errs.NotFound].
// Invalid UTF-8 is an [errs.Malformed].
func ParseKeyID(s string) (KeyID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns the ID as users see it: key_ and the UUID in its canonical form.
func (id KeyID) String() string { return idKind.String(id) }

// KeyState is the state of a key.
type KeyState string

// The states of keys.
const (
	KeyActive  KeyState = "active"
	KeyExpired KeyState = "expired"
	KeyRevoked KeyState = "revoked"
)

// Key is a key without its secret. Zero times mean "never".
type Key struct {
	ID         KeyID
	TenantID   [16]byte
	Name       string
	Prefix     string // of its secret, to distinguish keys; may be empty
	Scopes     []Scope
	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastUsedAt time.Time // to the minute
	RevokedAt  time.Time
}

// StateAt returns the state of the key at an instant.
func (k Key) StateAt(now time.Time) KeyState {
	switch {
	case !k.RevokedAt.IsZero():
		return KeyRevoked
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return KeyExpired
	default:
		return KeyActive
	}
}

// Object returns the key as the audit log names it.
func (k Key) Object() auditlog.Object { return auditlog.Object{Kind: auditlog.Key, ID: k.ID.String()} }

// Redacted returns the key as the audit log keeps it: without its secret.
func (k Key) Redacted() map[string]any {
	return auditlog.Without(map[string]any{
		"name": k.Name, "prefix": k.Prefix, "scopes": k.Scopes, "expiresAt": instant(k.ExpiresAt), "revokedAt": instant(k.RevokedAt),
	}, "", nil)
}

func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Secret is a fresh secret on its way to the store, which keeps its hash.
type Secret struct {
	Hash    [sha256.Size]byte
	Prefix  string
	Overlap time.Duration // how long the secret before it stays good
}

// KeyRequest is the input of a key's creation.
type KeyRequest struct {
	Name      string
	Scopes    []Scope
	ExpiresAt time.Time // zero: never
}

const (
	maxName    = 255 // characters
	maxOverlap = 24 * time.Hour
)

// Check validates the input of Create at a time and writes nothing. The error is an [errs.Invalid].
func (r KeyRequest) Check(now time.Time) error {
	var bad []errs.Field
	complain := func(field, code, message string) {
		bad = append(bad, errs.Field{
			Field:   field,
			Code:    code,
			Message: message,
		})
	}
	switch {
	case strings.TrimSpace(r.Name) == "":
		complain("name", "required", "must not be empty: describe the purpose of the key")
	case utf8.RuneCountInString(r.Name) > maxName:
		complain("name", "too_long", "must be at most 255 characters long")
	case strings.ContainsFunc(r.Name, func(c rune) bool { return !unicode.IsPrint(c) }) || strings.TrimSpace(r.Name) != r.Name:
		complain("name", "invalid_characters", "must be one line of readable text, without blanks at its ends")
	case ofPlanner(r.Name):
		complain("name", "name_reserved", "must not begin with planner:, by which hints and changes of the planner are known")
	}
	if len(r.Scopes) == 0 {
		complain("scopes", "required", "must hold at least one of read, write, admin")
	}
	for i, scope := range r.Scopes {
		if !scope.Valid() || slices.Contains(r.Scopes[:i], scope) {
			complain(fmt.Sprintf("scopes[%d]", i), "invalid_value", "must be one of read, write, admin, each at most once")
		}
	}
	if !r.ExpiresAt.IsZero() && (!r.ExpiresAt.After(now) || r.ExpiresAt.Year() >= 2200) {
		complain("expiresAt", "out_of_range", "must lie in the future and before the year 2200; leave it out for a key that does not expire")
	}
	return errs.InvalidFields(bad)
}

// ofPlanner reports whether a name reads as one of the planner's. Hints keep no more of their
// author than a name, and the planner replaces those that are its own.
func ofPlanner(name string) bool {
	const mark = "planner:"
	return len(name) >= len(mark) && strings.EqualFold(name[:len(mark)], mark)
}

// CheckOverlap validates the input of Rotate and writes nothing. The error is an [errs.Invalid].
func CheckOverlap(overlap time.Duration) error {
	if overlap >= 0 && overlap <= maxOverlap {
		return nil
	}
	return errs.InvalidFields([]errs.Field{{Field: "overlapMs", Code: "out_of_range", Message: "must be 0 to 86400000 (a day)"}})
}
