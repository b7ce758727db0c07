package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"rubato/client"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// draftView is the view model of the preview of an endpoint's form.
type draftView struct {
	quiet    bool // nothing was asked yet
	errors   map[string]string
	problem  string
	warnings []client.FieldError
	words    string // the cron in words
	due      []client.PlannedTime
	now      time.Time
}

// draft validates the form like a write, without storing it, and shows the first runs.
func (v *pageRequest) draft() error {
	f := v.typed()
	document := f.document()
	view := draftView{now: time.Now().UTC()}
	if len(f.errors) == 0 {
		if err := v.checkDraft(&f, document, &view); err != nil {
			return err
		}
	}
	view.errors, view.problem = f.errors, f.problem
	if f.get("baseline") == "cron" {
		view.words = schedule.Describe(f.get("baselineCron"))
	}
	if spec, ok := specOf(document); ok {
		e := endpoints.Endpoint{ID: endpoints.NewID(), CreatedAt: view.now}
		if f.id != "" {
			var err error
			if e, err = v.standing(f.id); err != nil {
				return err
			}
		}
		e.Revise(spec, view.now)
		view.due = firstDueTimes(e, view.now)
	}
	return v.part(draftPart(f, view))
}

// checkDraft validates the document by a dry run of an import, because that applies the rules of a
// write.
func (v *pageRequest) checkDraft(f *form, document map[string]any, view *draftView) error {
	line := maps.Clone(document)
	if f.id != "" {
		line["id"] = f.id
	}
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("writing a draft: %w", err)
	}
	var answer []byte
	err = v.call(apiRequest{
		method: "POST",
		path:   "/v1/endpoints:import",
		query:  map[string][]string{"dryRun": {"true"}},
		body:   bytes.NewReader(append(text, '\n')),
	}, &answer)
	if err != nil {
		problem := problemOf(err)
		f.problem = sentence(problem.Detail)
		return nil
	}
	var result client.ImportResult
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&result); err != nil {
		return fmt.Errorf("reading the API's response to a draft: %w", err)
	}
	if result.Warnings != nil {
		view.warnings = *result.Warnings
	}
	if result.Error != nil {
		f.blame(result.Error.Errors)
		if result.Error.Errors == nil {
			f.problem = sentence(result.Error.Detail)
		}
	}
	return nil
}

// specOf returns the spec of a document; false if it is invalid or its schedule is incomplete.
func specOf(d map[string]any) (endpoints.Spec, bool) {
	text, err := json.Marshal(d)
	if err != nil {
		return endpoints.Spec{}, false
	}
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber() // As the codec takes numbers.
	var document map[string]any
	if reader.Decode(&document) != nil {
		return endpoints.Spec{}, false
	}
	spec, err := endpoints.ReadSpec(document)
	whole := err == nil && (spec.BaselineCron == "") != (spec.BaselineInterval < time.Second) && (spec.MaxInterval == 0 || spec.MinInterval <= spec.MaxInterval)
	return spec.Normalize(), whole
}

// standing returns an endpoint as far as its next due times follow from it, beside its spec.
func (v *pageRequest) standing(text string) (e endpoints.Endpoint, err error) {
	if e.ID, err = endpoints.ParseID(text); err != nil {
		return e, notFound("there is no such endpoint")
	}
	var stored client.Endpoint
	if err := v.get(endpointAPI(text, ""), nil, &stored); err != nil {
		return e, err
	}
	basis, err := v.decided.DecisionBasis(v.r.Context(), v.who.TenantID, e.ID)
	if err != nil {
		return e, err
	}
	e.CreatedAt, e.Spec.URL = stored.CreatedAt, stored.URL
	e.State = endpoints.State{
		Anchor:       basis.Anchor,
		RetryAfter:   basis.RetryAfter,
		TargetNext:   basis.TargetNext,
		FreshUntil:   basis.FreshUntil,
		FailureCount: int(stored.FailureCount),
	}
	switch {
	case stored.PausedIndefinitely:
		e.State.PausedUntil = governor.Indefinite
	case stored.PausedUntil != nil:
		e.State.PausedUntil = *stored.PausedUntil
	}
	if stored.LastRun != nil {
		e.State.LastSlot = stored.LastRun.ScheduledFor
	}
	if h := stored.Hints.Interval; h != nil {
		e.State.IntervalHint = &endpoints.Hint{Interval: time.Duration(h.IntervalMs) * time.Millisecond, ExpiresAt: h.ExpiresAt}
	}
	if h := stored.Hints.OneShot; h != nil {
		e.State.OneShotHint = &endpoints.Hint{At: h.At, ExpiresAt: h.ExpiresAt}
	}
	return e, nil
}

// firstDueTimes returns the first due times of an endpoint under its new spec; nil if they cannot
// be computed.
func firstDueTimes(e endpoints.Endpoint, now time.Time) []client.PlannedTime {
	if _, err := e.Replan(now); err != nil {
		return nil
	}
	planned, err := e.Preview(now, shownDue)
	if err != nil {
		return nil
	}
	list := make([]client.PlannedTime, len(planned))
	for i, p := range planned {
		list[i] = client.PlannedTime{
			At:     p.At,
			Source: client.Source(p.Source),
			Note:   given(p.Note),
		}
	}
	return list
}
