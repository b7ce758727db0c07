package secrets

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnknown is in the error of [Set.Secret] where the tenant has no secret of that name.
var ErrUnknown = errors.New("there is no such secret")

// Set is the secrets and the signing keys of one tenant at one version, in the clear. It never changes and is safe for concurrent use.
// A nil Set holds nothing.
type Set struct {
	version int64
	values  map[string]Text
	faults  map[string]error // why a secret that there is cannot be read
	signing []signingKey     // the newest first
}

type signingKey struct {
	text      Text
	fault     error     // why it cannot be read
	expiresAt time.Time // zero: never
}

// NewSet returns a set of values by their names. It keeps the map.
func NewSet(version int64, values map[string]Text) *Set {
	return &Set{version: version, values: values}
}

// Version counts the changes of the tenant's secrets; zero where there never was one.
func (s *Set) Version() int64 {
	if s == nil {
		return 0
	}
	return s.version
}

// Secret returns the value of a secret. The error names the secret; it is an [ErrUnknown] where there is none of that name, and
// an [ErrUnreadable] where its value cannot be decrypted.
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

// SigningKeys returns the signing keys that are live at an instant, the newest first. The error is an [ErrUnreadable] where one of
// them cannot be decrypted.
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

// Contents is what a [Source] keeps for a tenant: everything sealed, at one version.
type Contents struct {
	Version     int64
	Secrets     []Kept
	SigningKeys []Kept // the newest first
}

// Kept is one sealed value and where it belongs.
type Kept struct {
	Place
	Sealed

	ExpiresAt time.Time // of a signing key; zero: never
}

// open decrypts contents. What cannot be read is told when it is asked for: the others are not worse for it.
func (r *Keyring) open(c Contents) *Set {
	s := &Set{version: c.Version, values: make(map[string]Text, len(c.Secrets)), faults: map[string]error{}}
	for _, k := range c.Secrets {
		value, err := r.Open(k.Place, k.Sealed)
		if err != nil {
			s.faults[k.Name] = fmt.Errorf("secret %q: %w", k.Name, err)
			continue
		}
		s.values[k.Name] = value
	}
	for _, k := range c.SigningKeys {
		text, err := r.Open(k.Place, k.Sealed)
		if err != nil {
			err = fmt.Errorf("signing key %s: %w", k.Name, err)
		}
		s.signing = append(s.signing, signingKey{text: text, fault: err, expiresAt: k.ExpiresAt})
	}
	return s
}
