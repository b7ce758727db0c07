package endpoints

import (
	"fmt"
	"strings"
	"time"

	"rubato/internal/errs"
)

// PlannerAuthor is the prefix of the author of every planner hint. The name of its advisor follows.
const PlannerAuthor = "planner:"

// HoldLife is how long the planner must not repeat a change that a person cleared, undid or
// rejected.
const HoldLife = 4 * time.Hour

// The kinds of change that the planner can make.
const (
	HoldInterval = "interval"
	HoldOneShot  = "one-shot"
	HoldPause    = "pause"
)

// Hold forbids the planner one kind of change at an endpoint for a time.
type Hold struct {
	Kind  string
	Until time.Time
	// By is the name of the API key that cleared, undid or rejected the change.
	By string
}

// Hold forbids the planner a kind of change for [HoldLife] from now.
func (e *Endpoint) Hold(kind string, now time.Time, by Actor) {
	e.Held = append(e.Held, Hold{
		Kind:  kind,
		Until: now.Add(HoldLife),
		By:    by.Name,
	})
}

// ByPlanner reports whether the planner wrote the hint.
func (h *Hint) ByPlanner() bool { return strings.HasPrefix(h.Author, PlannerAuthor) }

// pausedByPlanner reports whether the pause in force at now was set by the planner.
func (e *Endpoint) pausedByPlanner(now time.Time) bool {
	return e.PausedAt(now) && strings.HasPrefix(e.State.PauseReason, PlannerAuthor)
}

// clear removes the hints that the predicate selects. If a removed hint is the planner's, the
// planner may not write one of that kind for [HoldLife]. The result names each removed hint and its
// author.
func (e *Endpoint) clear(now time.Time, by Actor, which func(kind string, h *Hint) bool) (removed []errs.Field) {
	for _, at := range []struct {
		kind, field string
		hint        **Hint
	}{{HoldInterval, "hints.interval", &e.State.IntervalHint}, {HoldOneShot, "hints.oneShot", &e.State.OneShotHint}} {
		h := *at.hint
		if h == nil || !which(at.kind, h) {
			continue
		}
		*at.hint = nil
		if !h.fresh(now) {
			continue
		}
		text := fmt.Sprintf("removed the %s hint of %s: %s", at.kind, h.Author, h.words())
		if h.ByPlanner() {
			e.Hold(at.kind, now, by)
			text += heldWords(now)
		}
		removed = append(removed, errs.Field{
			Field:   at.field,
			Code:    "hint_removed",
			Message: text,
		})
	}
	return removed
}

// heldWords describes until when the planner must not repeat a removed change.
func heldWords(now time.Time) string {
	return "; the planner writes no other before " + now.Add(HoldLife).UTC().Format(time.RFC3339)
}

// words describes the request of a hint.
func (h *Hint) words() string {
	what := "once at " + h.At.UTC().Format(time.RFC3339)
	if h.Interval > 0 {
		what = "every " + h.Interval.String()
	}
	what += " until " + h.ExpiresAt.UTC().Format(time.RFC3339)
	if h.Reason != "" {
		what += ", " + h.Reason
	}
	return what
}

// Undo removes the planner's changes of some kinds that are in force, and forbids the planner to
// repeat them for [HoldLife]. removed names each of them and its author. Changes by persons stay.
func (e *Endpoint) Undo(now time.Time, by Actor, kinds []string) (planned *Recorded, removed []errs.Field, err error) {
	if e.Archived() {
		return nil, nil, errs.New(errs.Conflict, "endpoint_archived", "the endpoint is archived and cannot be changed")
	}
	before := *e
	wanted := map[string]bool{}
	for _, kind := range kinds {
		wanted[kind] = true
		e.Hold(kind, now, by)
	}
	removed = e.clear(now, by, func(kind string, h *Hint) bool { return wanted[kind] && h.ByPlanner() })
	if wanted[HoldPause] && e.pausedByPlanner(now) {
		removed = append(removed, errs.Field{
			Field:   "pausedUntil",
			Code:    "pause_removed",
			Message: "ended the pause until " + e.State.PausedUntil.UTC().Format(time.RFC3339) + " of " + e.State.PauseReason + heldWords(now),
		})
		e.State.PausedUntil, e.State.PauseReason = time.Time{}, ""
	}
	if len(removed) == 0 {
		removed = append(removed, errs.Field{
			Field:   "hints",
			Code:    "nothing_in_force",
			Message: "what the analysis wrote has ended, so nothing was removed" + heldWords(now),
		})
	}
	planned, err = e.replanAfter(now, &before, CauseHint, by)
	return planned, removed, err
}
