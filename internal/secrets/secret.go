package secrets

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

const (
	// MaxPerTenant is the maximum number of secrets per tenant. Workers cache all of them in
	// memory.
	MaxPerTenant = 500

	maxValue       = 64 << 10 // bytes
	maxDescription = 1000     // characters
)

// Secret is the metadata of a secret, without its value. Zero instants mean "never".
type Secret struct {
	TenantID    [16]byte
	Name        string
	Description string
	// Version counts the values.
	Version   int64
	KeyID     string
	CreatedAt time.Time
	// CreatedBy is the name of the API key.
	CreatedBy string
	UpdatedAt time.Time
	// UpdatedBy is the name of the API key.
	UpdatedBy string
	// LastUsedAt has a resolution of a minute.
	LastUsedAt time.Time
	// LastUsedBy is the ID of the endpoint.
	LastUsedBy [16]byte
	// Endpoints counts the endpoints in service that refer to the secret.
	Endpoints int
	// Rules counts the notice rules that refer to the secret.
	Rules int
}

// Identity returns the identity that the value is bound to.
func (s Secret) Identity() Identity {
	return Identity{
		Tenant: s.TenantID,
		Kind:   Named,
		Name:   s.Name,
	}
}

// Object returns the reference to the secret in the audit log.
func (s Secret) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.NamedSecret, ID: s.Name}
}

// Redacted returns the secret in its form for the audit log. It does not depend on the value.
func (s Secret) Redacted() map[string]any {
	return auditlog.Without(map[string]any{"description": s.Description, "version": s.Version}, "")
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// ValidName reports whether name is valid for a secret: up to 100 lower-case letters, digits, dots,
// hyphens and underscores, the first a letter or digit.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// Request is the request to store a value.
type Request struct {
	Name  string
	Value Text
	// Description is nil to keep the current one.
	Description *string
}

// Check validates the request as Put does. The error is an [errs.Invalid].
func (r Request) Check() error {
	var bad []errs.Field
	complain := func(field, code, message string) {
		bad = append(bad, errs.Field{
			Field:   field,
			Code:    code,
			Message: message,
		})
	}
	if !ValidName(r.Name) {
		complain("name", "name_invalid", "must be up to 100 lower-case letters, digits, dots, hyphens and underscores, the first a letter or a digit")
	}
	switch size := len(r.Value.Reveal()); {
	case size == 0:
		complain("value", "required", "must hold the value, of 1 to 65536 bytes")
	case size > maxValue:
		complain("value", "too_long", "must be at most 65536 bytes long")
	}
	if d := r.Description; d != nil {
		if utf8.RuneCountInString(*d) > maxDescription {
			complain("description", "too_long", "must be at most 1000 characters long")
		}
		if strings.ContainsFunc(*d, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) {
			complain("description", "invalid_characters", "must not hold control characters")
		}
	}
	return errs.InvalidFields(bad)
}

// Filter selects secrets of one tenant, sorted by name.
type Filter struct {
	TenantID [16]byte
	// After is the cursor of a list: only names that sort above it are returned.
	After string
	// Limit is the maximum number of results. It must be positive.
	Limit int
}
