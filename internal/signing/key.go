package signing

import (
	"time"

	"github.com/google/uuid"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/ids"
	"rubato/internal/secrets"
)

// MaxLive is how many keys of a tenant can be live at once: the one that receivers know, and the one that they are about to.
const MaxLive = 2

// maxOverlap is how long an older key can be told to stay live.
const maxOverlap = 90 * 24 * time.Hour

// KeyID names a signing key for ever. It is a UUIDv7, so keys sort by when they were made.
type KeyID [16]byte

var idKind = ids.Kind{Prefix: "sgk_", Noun: "signing key"}

// NewKeyID returns a fresh ID.
func NewKeyID() KeyID { return KeyID(uuid.Must(uuid.NewV7())) }

// ParseKeyID reads the form that String writes. A text that no ID has names nothing: the error is an [errs.NotFound]. What is no text
// at all is an [errs.Malformed].
func ParseKeyID(s string) (KeyID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns the ID as users see it: sgk_ and the UUID in its canonical form.
func (id KeyID) String() string { return idKind.String(id) }

// Key is what may be known of a signing key: everything but the key itself.
type Key struct {
	ID        KeyID
	TenantID  [16]byte
	CreatedAt time.Time
	CreatedBy string    // name of the API key
	ExpiresAt time.Time // zero: never
}

// Place returns where the sealed key belongs.
func (k Key) Place() secrets.Place {
	return secrets.Place{Tenant: k.TenantID, Kind: secrets.Signing, Name: k.ID.String()}
}

// Object returns the key as the audit log names it.
func (k Key) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.SigningKey, ID: k.ID.String()}
}

// Redacted returns the key as the audit log keeps it: nothing in it depends on the key itself.
func (k Key) Redacted() map[string]any {
	doc := map[string]any{}
	if !k.ExpiresAt.IsZero() {
		doc["expiresAt"] = k.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return doc
}

// Request is a signing key as it is asked for.
type Request struct {
	ExpiresAt time.Time      // zero: never
	Overlap   *time.Duration // how long the older keys stay live; nil: as long as they do
}

// Check returns what Create would refuse at an instant, as an [errs.Invalid], and writes nothing.
func (r Request) Check(now time.Time) error {
	var bad []errs.Field
	if !r.ExpiresAt.IsZero() && (!r.ExpiresAt.After(now) || r.ExpiresAt.Year() >= 2200) {
		bad = append(bad, errs.Field{
			Field: "expiresAt", Code: "out_of_range",
			Message: "must lie in the future and before the year 2200; leave it out for a key that does not expire",
		})
	}
	if r.Overlap != nil && (*r.Overlap < 0 || *r.Overlap > maxOverlap) {
		bad = append(bad, errs.Field{Field: "overlapMs", Code: "out_of_range", Message: "must be 0 to 7776000000 (90 days)"})
	}
	return errs.InvalidFields(bad)
}
