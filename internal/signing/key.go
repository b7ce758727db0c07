package signing

import (
	"time"

	"github.com/google/uuid"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/ids"
	"rubato/internal/secrets"
)

// MaxLive is the maximum number of live keys per tenant. Two allow a rotation: the old key and the
// new one.
const MaxLive = 2

// maxOverlap is the maximum time that an older key stays live after a rotation.
const maxOverlap = 90 * 24 * time.Hour

// KeyID identifies a signing key permanently. It is a UUIDv7, so that keys sort by creation time.
type KeyID [16]byte

var idKind = ids.Kind{Prefix: "sgk_", Noun: "signing key"}

// NewKeyID returns a fresh ID.
func NewKeyID() KeyID { return KeyID(uuid.Must(uuid.NewV7())) }

// ParseKeyID parses the form that String writes. The error is an [errs.Malformed] for input that is
// not text, and an [errs.NotFound] for any other input that is no ID.
func ParseKeyID(s string) (KeyID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns the ID in its API form: sgk_ and the UUID in canonical form.
func (id KeyID) String() string { return idKind.String(id) }

// Key is the metadata of a signing key, without the key itself.
type Key struct {
	ID        KeyID
	TenantID  [16]byte
	CreatedAt time.Time
	// CreatedBy is the name of the API key.
	CreatedBy string
	// ExpiresAt is zero for a key without an end.
	ExpiresAt time.Time
}

// Identity returns the identity that the sealed key is bound to.
func (k Key) Identity() secrets.Identity {
	return secrets.Identity{
		Tenant: k.TenantID,
		Kind:   secrets.Signing,
		Name:   k.ID.String(),
	}
}

// Object returns the reference to the key in the audit log.
func (k Key) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.SigningKey, ID: k.ID.String()}
}

// Redacted returns the key in its form for the audit log. It does not depend on the key itself.
func (k Key) Redacted() map[string]any {
	doc := map[string]any{}
	if !k.ExpiresAt.IsZero() {
		doc["expiresAt"] = k.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return doc
}

// Request is the request for a new signing key.
type Request struct {
	// ExpiresAt is zero for a key without an end.
	ExpiresAt time.Time
	// Overlap is how long the older keys stay live; nil: until they expire or are deleted.
	Overlap *time.Duration
}

// Check validates the request as Create does. The error is an [errs.Invalid].
func (r Request) Check(now time.Time) error {
	var bad []errs.Field
	if !r.ExpiresAt.IsZero() && (!r.ExpiresAt.After(now) || r.ExpiresAt.Year() >= 2200) {
		bad = append(bad, errs.Field{
			Field: "expiresAt", Code: "out_of_range",
			Message: "must lie in the future and before the year 2200; leave it out for a key that does not expire",
		})
	}
	if r.Overlap != nil && (*r.Overlap < 0 || *r.Overlap > maxOverlap) {
		bad = append(bad, errs.Field{
			Field:   "overlapMs",
			Code:    "out_of_range",
			Message: "must be 0 to 7776000000 (90 days)",
		})
	}
	return errs.InvalidFields(bad)
}
