package secrets

import (
	"errors"
	"fmt"
)

// ErrUnknown is in the error of [Set.Secret] where the tenant has no secret of that name.
var ErrUnknown = errors.New("there is no such secret")

// Set is the secrets of one tenant at one version, in the clear. It never changes and is safe for concurrent use. A nil Set holds
// nothing.
type Set struct {
	version int64
	values  map[string]Text
	faults  map[string]error // why a secret that there is cannot be read
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
