package notices

import (
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// MaxWindows is how many maintenance windows a tenant can have.
const MaxWindows = 500

const (
	maxWindow = 366 * 24 * time.Hour
	maxReason = 500 // characters
)

// Window is a time at which nobody is told of endpoints. What opens in it is told at its end where it goes on, and not at all where it is
// over by then.
type Window struct {
	WindowSpec

	TenantID  [16]byte
	Name      string
	CreatedAt time.Time
	CreatedBy string // name of the API key
}

// WindowSpec is what a user says of a maintenance window.
type WindowSpec struct {
	Scope    Scope
	StartsAt time.Time
	EndsAt   time.Time // not a part of it
	Reason   string
}

// Check returns what is wrong with a window of a name, as an [errs.Invalid] that names every bad field.
func (s WindowSpec) Check(name string) error {
	var bad complaints
	checkName(&bad, name)
	checkScope(&bad, s.Scope)
	if s.StartsAt.Year() < 2020 || s.StartsAt.Year() >= 2200 {
		bad.complain("startsAt", "out_of_range", "must lie between the years 2020 and 2200")
	}
	switch {
	case !s.EndsAt.After(s.StartsAt):
		bad.complain("endsAt", "window_order", "must lie after startsAt")
	case s.EndsAt.Sub(s.StartsAt) > maxWindow:
		bad.complain("endsAt", "out_of_range", "must lie at most 366 days after startsAt")
	}
	if !short(s.Reason, maxReason) {
		bad.complain("reason", "too_long", "must be at most 500 characters on one line")
	}
	return errs.InvalidFields(bad)
}

// Object returns the window as the audit log names it.
func (w Window) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.MaintenanceWindow, ID: w.Name}
}

// Redacted returns the window as the audit log keeps it.
func (w Window) Redacted() map[string]any {
	doc := map[string]any{
		"startsAt": w.StartsAt.UTC().Format(time.RFC3339Nano), "endsAt": w.EndsAt.UTC().Format(time.RFC3339Nano), "reason": w.Reason,
	}
	if w.Scope.EndpointID != (endpoints.ID{}) {
		doc["endpointId"] = w.Scope.EndpointID.String()
	}
	if len(w.Scope.Labels) > 0 {
		doc["labels"] = w.Scope.Labels
	}
	return doc
}
