package httpapi

import (
	"fmt"
	"strconv"
	"time"

	"github.com/oapi-codegen/runtime"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// endpointAnswer returns an endpoint as users see it at an instant.
func endpointAnswer(e *endpoints.Endpoint, now time.Time, warnings []errs.Field) api.Endpoint {
	spec := shownSpec(&e.Spec)
	for _, always := range []string{"labels", "headers"} {
		if spec[always] == nil {
			spec[always] = map[string]any{}
		}
	}
	var out api.Endpoint
	if err := runtime.BindJSONValue(spec, &out); err != nil {
		panic(fmt.Errorf("the contract and endpoints.Spec differ: %w", err))
	}
	out.ID, out.Version = e.ID.String(), e.Version
	out.CreatedAt, out.UpdatedAt, out.ArchivedAt = e.CreatedAt.UTC(), e.UpdatedAt.UTC(), shown(e.ArchivedAt)
	if len(warnings) > 0 {
		out.Warnings = new(fieldErrors(warnings))
	}
	showState(&out, e, now)
	return out
}

// shownSpec returns the document of a spec as answers and exports show it: with the mask in place
// of secrets.
func shownSpec(s *endpoints.Spec) map[string]any {
	document := s.Document()
	headers, _ := document["headers"].(map[string]any) // Absent: none.
	for name := range headers {
		if auditlog.Secret(name) {
			headers[name] = mask
		}
	}
	return document
}

// showState fills in where the schedule stands.
func showState(out *api.Endpoint, e *endpoints.Endpoint, now time.Time) {
	s := e.State
	out.State = api.EndpointStateActive
	out.FailureCount = int32(s.FailureCount)
	if e.PausedAt(now) {
		out.State = api.EndpointStatePaused
		out.PausedUntil = shownDue(s.PausedUntil)
		out.PausedIndefinitely = out.PausedUntil == nil
		out.PauseReason = optional(s.PauseReason)
	}
	if e.Archived() {
		out.State = api.EndpointStateArchived
	} else {
		out.NextRunAt = shownDue(s.Due.At)
		out.NextSource = new(api.Source(s.Due.Source))
		out.UnroutableSince = shown(s.UnroutableAt(now))
	}
	out.Hints = api.Hints{Interval: intervalAnswer(s.IntervalHint, now), OneShot: oneShotAnswer(s.OneShotHint, now)}
	if r := s.Running; r != nil {
		out.Running = &api.LiveRun{
			RunID: runs.NewID(r.Slot, e.ID, r.Attempt, r.InfraAttempt).String(), ScheduledFor: r.Slot.UTC(),
			Attempt: int32(r.Attempt), StartedAt: r.StartedAt.UTC(),
		}
	}
	if r := s.LastRun; r != nil {
		out.LastRun = &api.LastRun{
			RunID:        runs.NewID(r.Slot, e.ID, r.Attempt, r.InfraAttempt).String(),
			ScheduledFor: r.Slot.UTC(),
			Status:       api.RunStatus(r.Status),
			Attempt:      int32(r.Attempt),
			StartedAt:    r.StartedAt.UTC(),
			FinishedAt:   r.FinishedAt.UTC(),
		}
	}
}

func intervalAnswer(h *endpoints.Hint, now time.Time) *api.IntervalHint {
	if h == nil || !h.ExpiresAt.After(now) {
		return nil
	}
	out := &api.IntervalHint{
		IntervalMs: h.Interval.Milliseconds(),
		Reason:     h.Reason,
		Author:     h.Author,
		CreatedAt:  h.CreatedAt.UTC(),
		ExpiresAt:  h.ExpiresAt.UTC(),
	}
	if !h.OutageSince.IsZero() {
		out.OutageSince = new(h.OutageSince.UTC())
	}
	return out
}

func oneShotAnswer(h *endpoints.Hint, now time.Time) *api.OneShotHint {
	if h == nil || !h.ExpiresAt.After(now) {
		return nil
	}
	return &api.OneShotHint{
		At:        h.At.UTC(),
		Reason:    h.Reason,
		Author:    h.Author,
		CreatedAt: h.CreatedAt.UTC(),
		ExpiresAt: h.ExpiresAt.UTC(),
	}
}

// decisionAnswer returns a decision of the governor as users see it.
func decisionAnswer(at time.Time, source governor.Source, steps []governor.Step) api.Decision {
	out := api.Decision{
		NextRunAt: shownDue(at),
		Source:    api.Source(source),
		Steps:     make([]api.Step, len(steps)),
	}
	for i, step := range steps {
		out.Steps[i] = api.Step{
			Rule: api.Rule(step.Rule),
			At:   shownDue(step.At),
			Why:  step.Why,
		}
		if step.Price > 0 {
			out.Steps[i].Price = new(step.Price)
		}
	}
	return out
}

// etag returns the entity tag of a version.
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
