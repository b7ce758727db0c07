package endpoints

import (
	"fmt"

	"rubato/internal/errs"
)

// Condition is what must be so of what is stored under a key or a name, for something else to be stored there (RFC 9110 section 13). The zero
// value asks for nothing.
type Condition struct {
	Absent  bool  // there is nothing
	Present bool  // there is something
	Version int64 // it has this version; 0: any
	Not     int64 // it does not have this version; 0: any
}

const codeExists = "endpoint_exists"

// Endpoint returns an [errs.Precondition] where the endpoint, nil for none, is not as asked.
func (c Condition) Endpoint(stored *Endpoint) error {
	var version int64
	if stored != nil {
		version = stored.Version
	}
	return c.Check("endpoint", codeExists, version)
}

// Check returns an [errs.Precondition] where what is stored, of a kind and at a version, is not as asked. Version 0 says that there is nothing;
// taken is the code for what is there and should not be.
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
