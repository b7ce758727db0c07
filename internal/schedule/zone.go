package schedule

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // Zones must not depend on what the machine has installed.

	"rubato/internal/errs"
)

// zoneShape is the syntax of IANA names. It excludes paths, dots and blanks, because the name
// selects a file.
var zoneShape = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`)

// maxZone limits the length of a zone name in bytes; the longest in use has 32.
const maxZone = 64

// LoadZone returns the IANA time zone with a name. It refuses names that depend on the machine
// (Local, localtime, posixrules), names of no zone (empty, Factory), zones with leap seconds
// (right/...), and offsets such as UTC+2. The error is an [errs.Error] for the field timezone.
func LoadZone(name string) (*time.Location, error) {
	if len(name) <= maxZone && zoneShape.MatchString(name) && !oddZone(name) {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	wrong := fmt.Sprintf("%.40q is no time zone", name)
	if strings.TrimSpace(name) == "" { // white space looks like an empty text
		wrong = "must not be empty"
	}
	return nil, errs.InvalidFields([]errs.Field{{
		Field: fieldTimezone, Code: codeTimezone,
		Message: wrong + ": use an IANA name such as Europe/Berlin, America/New_York or UTC (a fixed offset of +2 h is Etc/GMT-2, with the sign reversed)",
	}})
}

// oddZone reports whether name is a file of the zone database that is no zone of its own.
func oddZone(name string) bool {
	top, _, _ := strings.Cut(strings.ToLower(name), "/")
	switch top {
	case "local", "localtime", "posixrules", "factory", "posix", "right":
		return true
	}
	return false
}
