package notices

import (
	"fmt"

	"rubato/internal/errs"
)

// Condition is what must be so of the rule or the window that has a name, for another one to be stored under it (RFC 9110 section 13). The zero
// value asks for nothing.
type Condition struct {
	Absent  bool  // there is none
	Present bool  // there is one
	Version int64 // it has this version; 0: any
}

// Check returns an [errs.Precondition] where what is there, of a kind and at a version, is not as asked. Version 0 says that nothing is there.
func (c Condition) Check(kind string, version int64) error {
	switch {
	case c.Absent && version != 0:
		return errs.New(errs.Precondition, "name_taken", fmt.Sprintf("a %s has this name already; leave If-None-Match out to replace it", kind))
	case c.Present && version == 0:
		return errs.New(errs.Precondition, "version_mismatch", fmt.Sprintf("no %s has this name; leave If-Match out to store one", kind))
	case c.Version != 0 && c.Version != version:
		return errs.New(errs.Precondition, "version_mismatch", fmt.Sprintf("the %s was changed since it was read; read it again and repeat the edit", kind))
	}
	return nil
}
