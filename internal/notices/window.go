package notices

import (
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// MaxWindows is the maximum number of maintenance windows per tenant.
const MaxWindows = 500

const (
	maxWindow = 366 * 24 * time.Hour
	maxReason = 500 // characters
)

// Window is a stored maintenance window. It holds notices back. An episode that opens in the window
// and is still open at its end is reported then; one that has ended is not reported.
type Window struct {
	WindowSpec

	TenantID  [16]byte
	Name      string
	CreatedAt time.Time
	// CreatedBy is the name of the API key.
	CreatedBy string
}

// WindowSpec is the configuration of a maintenance window.
type WindowSpec struct {
	Scope    Scope
	StartsAt time.Time
	// EndsAt is exclusive.
	EndsAt time.Time
	Reason string
}

// Check validates a window and its name. The error is an [errs.Invalid] that names every bad field.
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

// Object returns the reference to the window in the audit log.
func (w Window) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.MaintenanceWindow, ID: w.Name}
}

// Redacted returns the window in its form for the audit log.
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
