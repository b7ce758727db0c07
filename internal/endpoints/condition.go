package endpoints

import (
	"fmt"

	"rubato/internal/errs"
)

// Condition is the precondition of a write under a key or a name (RFC 9110 section 13). The zero
// value always holds.
type Condition struct {
	// Absent requires that nothing is stored.
	Absent bool
	// Present requires that something is stored.
	Present bool
	// Version is the required version; 0: any.
	Version int64
	// Not is the excluded version; 0: none.
	Not int64
}

const codeExists = "endpoint_exists"

// Endpoint returns an [errs.Precondition] if the stored endpoint, nil for none, violates the
// condition.
func (c Condition) Endpoint(stored *Endpoint) error {
	var version int64
	if stored != nil {
		version = stored.Version
	}
	return c.Check("endpoint", codeExists, version)
}

// Check returns an [errs.Precondition] if the stored object of a kind violates the condition.
// Version 0 means that nothing is stored. taken is the error code for an object that should be
// absent.
func (c Condition) Check(kind, taken string, version int64) error {
	switch {
	case c.Absent && version != 0:
		return errs.New(errs.Precondition, taken, fmt.Sprintf("the %s exists already; leave If-None-Match out to replace it", kind))
	case c.Present && version == 0:
		return errs.New(errs.Precondition, "version_mismatch", fmt.Sprintf("there is no such %s; leave If-Match out to create it", kind))
	case c.Not != 0 && c.Not == version:
		return errs.New(errs.Precondition, "version_mismatch", fmt.Sprintf("the %s has the version that If-None-Match names; leave If-None-Match out to replace it", kind))
	case c.Version != 0 && c.Version != version:
		return errs.New(errs.Precondition, "version_mismatch", fmt.Sprintf("the %s was changed since it was read; read it again and repeat the edit", kind))
	}
	return nil
}
