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
	// MaxPerTenant is how many secrets a tenant can have: a worker keeps all of them in memory.
	MaxPerTenant = 500

	maxValue       = 64 << 10 // bytes
	maxDescription = 1000     // characters
)

// Secret is what may be known of a secret: everything but its value. Zero instants mean "never".
type Secret struct {
	TenantID    [16]byte
	Name        string
	Description string
	Version     int64 // counts its values
	KeyID       string
	CreatedAt   time.Time
	CreatedBy   string // name of the API key
	UpdatedAt   time.Time
	UpdatedBy   string    // name of the API key
	LastUsedAt  time.Time // to the minute
	LastUsedBy  [16]byte  // the endpoint
	Endpoints   int       // how many in service refer to it
	Rules       int       // how many notice rules refer to it
}

// Place returns where the value of the secret belongs.
func (s Secret) Place() Place { return Place{Tenant: s.TenantID, Kind: Named, Name: s.Name} }

// Object returns the secret as the audit log names it.
func (s Secret) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.NamedSecret, ID: s.Name}
}

// Redacted returns the secret as the audit log keeps it: nothing in it depends on the value.
func (s Secret) Redacted() map[string]any {
	return auditlog.Without(map[string]any{"description": s.Description, "version": s.Version}, "")
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// ValidName reports whether a secret can have a name: up to 100 lower-case letters, digits, dots, hyphens and underscores, the first a
// letter or a digit.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// Request is a value for a secret, as it is asked for.
type Request struct {
	Name        string
	Value       Text
	Description *string // nil: as it is
}

// Check returns what Put would refuse, as an [errs.Invalid], and writes nothing.
func (r Request) Check() error {
	var bad []errs.Field
	complain := func(field, code, message string) {
		bad = append(bad, errs.Field{Field: field, Code: code, Message: message})
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

// Filter selects secrets of one tenant, by name.
type Filter struct {
	TenantID [16]byte
	After    string // only names that sort above: the cursor of a list
	Limit    int    // at most so many; must be positive
}
