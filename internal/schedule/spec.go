package schedule

import (
	"fmt"
	"strings"
	"time"

	"rubato/internal/errs"
)

// maxExpression bounds the bytes of an expression: room for any list of every minute of an hour, and no more.
const maxExpression = 512

// The codes of bad fields, as users see them.
const (
	codeInvalid    = "cron_invalid"
	codeNeverFires = "cron_never_fires"
	codeTimezone   = "timezone_invalid"
	codeValue      = "invalid_value"
)

// The names of the fields that a [Spec] is made of, as users see them.
const (
	fieldCron     = "baselineCron"
	fieldTimezone = "timezone"
	fieldGap      = "dst.gap"
	fieldOverlap  = "dst.overlap"
)

// GapPolicy says what happens to times that do not exist because the clock jumps forward. The zero value is [GapRun].
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

// OverlapPolicy says what happens to times that come twice because the clock is set back. The zero value is [OverlapOnce].
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

// Spec is a cron schedule as its user wrote it.
type Spec struct {
	Expression string        // see the package comment; required
	Gap        GapPolicy     // empty means GapRun
	ID         [16]byte      // the endpoint, from which H takes its values
	Overlap    OverlapPolicy // empty means OverlapOnce
	Zone       string        // IANA name; empty means UTC
}

// Parse checks spec and returns its schedule. The error is an [errs.Error] with code [errs.Invalid] that names everything that is
// wrong at once: baselineCron (cron_invalid, cron_never_fires; one entry for each bad part), timezone (timezone_invalid),
// dst.gap and dst.overlap (invalid_value).
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

// CheckClock checks the zone and the policies of spec as [Parse] does, whatever its expression: for a baseline that is an interval.
func CheckClock(spec Spec) error {
	_, bad := spec.clock()
	return errs.InvalidFields(bad)
}

// clock returns the zone of s, and what is wrong with it and with the policies for its changes.
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

// badCron returns a bad part of the expression.
func badCron(code, format string, args ...any) errs.Field {
	return errs.Field{Field: fieldCron, Code: code, Message: fmt.Sprintf(format, args...)}
}
