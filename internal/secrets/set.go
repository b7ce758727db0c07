package secrets

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnknown is wrapped by the error of [Set.Secret] for a name that the tenant does not have.
var ErrUnknown = errors.New("there is no such secret")

// Set is the decrypted secrets and signing keys of one tenant at one version. It is immutable and
// safe for concurrent use. A nil Set is empty.
type Set struct {
	version int64
	values  map[string]Text
	// faults holds the errors of secrets that exist but cannot be decrypted.
	faults  map[string]error
	signing []signingKey // newest first
}

type signingKey struct {
	text Text
	// fault is the error if the key cannot be decrypted.
	fault error
	// expiresAt is zero for a key without an end.
	expiresAt time.Time
}

// NewSet returns a set of values by name. It takes ownership of the map.
func NewSet(version int64, values map[string]Text) *Set {
	return &Set{version: version, values: values}
}

// Version counts the changes of the tenant's secrets; zero: none so far.
func (s *Set) Version() int64 {
	if s == nil {
		return 0
	}
	return s.version
}

// Secret returns the value of a secret. The error names the secret. It is an [ErrUnknown] for an
// unknown name, and an [ErrUnreadable] if the value cannot be decrypted.
func (s *Set) Secret(name string) (string, error) {
	if s == nil {
		return "", unknown(name)
	}
	if value, known := s.values[name]; known {
		return value.Reveal(), nil
	}
	if fault := s.faults[name]; fault != nil {
		return "", fault
	}
	return "", unknown(name)
}

func unknown(name string) error { return fmt.Errorf("secret %q: %w", name, ErrUnknown) }

// SigningKeys returns the signing keys that are live at an instant, newest first. The error is an
// [ErrUnreadable] if one of them cannot be decrypted.
func (s *Set) SigningKeys(at time.Time) ([]Text, error) {
	if s == nil {
		return nil, nil
	}
	var live []Text
	for _, k := range s.signing {
		if !k.expiresAt.IsZero() && !k.expiresAt.After(at) {
			continue
		}
		if k.fault != nil {
			return nil, k.fault
		}
		live = append(live, k.text)
	}
	return live, nil
}

// Contents is everything that a [Source] stores for a tenant, sealed, at one version.
type Contents struct {
	Version     int64
	Secrets     []StoredValue
	SigningKeys []StoredValue // newest first
}

// StoredValue is a sealed value and its identity.
type StoredValue struct {
	Identity
	Sealed

	// ExpiresAt is that of a signing key; zero: never.
	ExpiresAt time.Time
}

// open decrypts contents. An unreadable value is reported only when it is requested, so that the
// others stay usable.
func (r *Keyring) open(c Contents) *Set {
	s := &Set{
		version: c.Version,
		values:  make(map[string]Text, len(c.Secrets)),
		faults:  map[string]error{},
	}
	for _, k := range c.Secrets {
		value, err := r.Open(k.Identity, k.Sealed)
		if err != nil {
			s.faults[k.Name] = fmt.Errorf("secret %q: %w", k.Name, err)
			continue
		}
		s.values[k.Name] = value
	}
	for _, k := range c.SigningKeys {
		text, err := r.Open(k.Identity, k.Sealed)
		if err != nil {
			err = fmt.Errorf("signing key %s: %w", k.Name, err)
		}
		s.signing = append(s.signing, signingKey{
			text:      text,
			fault:     err,
			expiresAt: k.ExpiresAt,
		})
	}
	return s
}
