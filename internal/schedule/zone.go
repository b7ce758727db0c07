package schedule

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // Zones must not depend on what the machine has installed.

	"rubato/internal/errs"
)

// zoneShape is what IANA names look like. It keeps paths, dots and blanks away from the zone files.
var zoneShape = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`)

// maxZone bounds the bytes of a zone name; the longest in use has 32.
const maxZone = 64

// LoadZone returns the IANA time zone of that name. It refuses names that mean something else on every machine (Local, localtime,
// posixrules), that stand for no zone (empty, Factory), that count leap seconds (right/...), and offsets such as UTC+2. The error is
// an [errs.Error] that names the field timezone.
func LoadZone(name string) (*time.Location, error) {
	if len(name) <= maxZone && zoneShape.MatchString(name) && !oddZone(name) {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	wrong := fmt.Sprintf("%.40q is no time zone", name)
	if strings.TrimSpace(name) == "" { // Who was given an empty text may have made a blank of it.
		wrong = "must not be empty"
	}
	return nil, errs.InvalidFields([]errs.Field{{
		Field: fieldTimezone, Code: codeTimezone,
		Message: wrong + ": use an IANA name such as Europe/Berlin, America/New_York or UTC (a fixed offset of +2 h is Etc/GMT-2, with the sign reversed)",
	}})
}

// oddZone reports whether name is a file of a zone database that is not a zone of its own.
func oddZone(name string) bool {
	top, _, _ := strings.Cut(strings.ToLower(name), "/")
	switch top {
	case "local", "localtime", "posixrules", "factory", "posix", "right":
		return true
	}
	return false
}
