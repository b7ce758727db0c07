package pg

import (
	"fmt"
	"slices"

	"rubato/internal/errs"
	"rubato/internal/secrets"
)

// NothingNamed returns the [errs.NotFound] of an unknown name. If the name is malformed, the error
// shows a valid one.
func NothingNamed(noun, name, example string) error {
	if !secrets.ValidName(name) {
		return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no such %s; the name of one looks like %s", noun, example))
	}
	return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no %s %q", noun, name))
}

// ValidNames returns the names that are valid names of secrets. The others are dropped because they
// may not be valid text for Postgres, such as one with a NUL byte.
func ValidNames(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !secrets.ValidName(name) })
}
