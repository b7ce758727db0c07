package schedule

import (
	"fmt"
	"strings"
	"time"

	"rubato/internal/errs"
)

// maxExpression limits the length of an expression in bytes: enough for a list of every minute.
const maxExpression = 512

// Error codes of fields in the API.
const (
	codeInvalid    = "cron_invalid"
	codeNeverFires = "cron_never_fires"
	codeTimezone   = "timezone_invalid"
	codeValue      = "invalid_value"
)

// Field names in the API.
const (
	fieldCron     = "baselineCron"
	fieldTimezone = "timezone"
	fieldGap      = "dst.gap"
	fieldOverlap  = "dst.overlap"
)

// GapPolicy is the policy for local times in a gap, when the clock jumps forward. The zero value is
// [GapRun].
type GapPolicy string

// The gap policies.
const (
	GapRun  GapPolicy = "run"  // one run at the first instant after the gap
	GapSkip GapPolicy = "skip" // no run
)

// Valid reports whether p is a known policy or empty.
func (p GapPolicy) Valid() bool {
	switch p {
	case "", GapRun, GapSkip:
		return true
	}
	return false
}

// OverlapPolicy is the policy for local times that repeat, when the clock is set back. The zero
// value is [OverlapOnce].
type OverlapPolicy string

// The overlap policies.
const (
	OverlapOnce OverlapPolicy = "once" // the first pass only
	OverlapBoth OverlapPolicy = "both" // both passes
)

// Valid reports whether p is a known policy or empty.
func (p OverlapPolicy) Valid() bool {
	switch p {
	case "", OverlapOnce, OverlapBoth:
		return true
	}
	return false
}

// Spec is a cron schedule in the user's form.
type Spec struct {
	Expression string        // see the package comment; required
	Gap        GapPolicy     // empty means GapRun
	ID         [16]byte      // endpoint ID, hashed for H
	Overlap    OverlapPolicy // empty means OverlapOnce
	Zone       string        // IANA name; empty means UTC
}

// Parse parses a schedule. The error is an [errs.Error] with code [errs.Invalid] that lists every
// wrong field: baselineCron (cron_invalid, cron_never_fires), timezone (timezone_invalid), dst.gap
// and dst.overlap (invalid_value).
func Parse(spec Spec) (*Cron, error) {
	pattern, bad := parseExpression(spec.Expression, spec.ID)
	zone, more := spec.clock()
	if err := errs.InvalidFields(append(bad, more...)); err != nil {
		return nil, err
	}

	c := &Cron{
		expression: strings.Join(strings.Fields(spec.Expression), " "),
		zone:       zone,
		pattern:    pattern,
		skipGaps:   spec.Gap == GapSkip,
		bothPasses: spec.Overlap == OverlapBoth || pattern.even,
	}
	if err := c.checkFires(); err != nil {
		return nil, err
	}
	return c, nil
}

// CheckClock checks the zone and the policies like [Parse], for a baseline that is an interval.
func CheckClock(spec Spec) error {
	_, bad := spec.clock()
	return errs.InvalidFields(bad)
}

// clock returns the zone, and the errors of the zone and the policies.
func (s Spec) clock() (*time.Location, []errs.Field) {
	if s.Zone == "" {
		s.Zone = "UTC"
	}
	zone, err := LoadZone(s.Zone)
	bad := errs.FieldsOf(err)
	if !s.Gap.Valid() {
		bad = append(bad, badPolicy(fieldGap, string(s.Gap), string(GapRun), string(GapSkip)))
	}
	if !s.Overlap.Valid() {
		bad = append(bad, badPolicy(fieldOverlap, string(s.Overlap), string(OverlapOnce), string(OverlapBoth)))
	}
	return zone, bad
}

func badPolicy(field, got, first, second string) errs.Field {
	return errs.Field{
		Field: field, Code: codeValue,
		Message: fmt.Sprintf("%.40q is no policy: use %q (the default) or %q", got, first, second),
	}
}

// badCron returns an error in the expression.
func badCron(code, format string, args ...any) errs.Field {
	return errs.Field{
		Field:   fieldCron,
		Code:    code,
		Message: fmt.Sprintf(format, args...),
	}
}
