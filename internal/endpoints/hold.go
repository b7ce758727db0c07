package endpoints

import (
	"fmt"
	"strings"
	"time"

	"rubato/internal/errs"
)

// PlannerAuthor is how the author of every hint of the planner begins; the name of its advisor follows.
const PlannerAuthor = "planner:"

// HoldLife is how long the word of a person stands against the planner: what was cleared, undone or rejected is not written again before.
const HoldLife = 4 * time.Hour

// The kinds of what the planner writes.
const (
	HoldInterval = "interval"
	HoldOneShot  = "one-shot"
	HoldPause    = "pause"
)

// Hold forbids the planner one kind of change at an endpoint for a time.
type Hold struct {
	Kind  string
	Until time.Time
	By    string // the name of the key that cleared, undid or rejected
}

// Hold forbids the planner a kind of change from an instant on.
func (e *Endpoint) Hold(kind string, now time.Time, by Actor) {
	e.Held = append(e.Held, Hold{Kind: kind, Until: now.Add(HoldLife), By: by.Name})
}

// ByPlanner reports whether the planner wrote the hint.
func (h *Hint) ByPlanner() bool { return strings.HasPrefix(h.Author, PlannerAuthor) }

// pausedByPlanner reports whether a pause that holds at an instant is the planner's.
func (e *Endpoint) pausedByPlanner(now time.Time) bool {
	return e.PausedAt(now) && strings.HasPrefix(e.State.PauseReason, PlannerAuthor)
}

// clear removes the interval hint and the one-shot hint where which selects them, forbids the planner to write its own again, and
// returns what was removed and whose it was.
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
		removed = append(removed, errs.Field{Field: at.field, Code: "hint_removed", Message: text})
	}
	return removed
}

// heldWords tells for how long the planner leaves alone what was removed.
func heldWords(now time.Time) string {
	return "; the planner writes no other before " + now.Add(HoldLife).UTC().Format(time.RFC3339)
}

// words tell what a hint asks for.
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

// Undo takes back what the planner has in force at the endpoint of some kinds, and forbids it to write them again for [HoldLife]. It
// returns what was removed and whose it was; nothing where all of it has ended. What persons wrote stays.
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
			Field: "pausedUntil", Code: "pause_removed", Message: "ended the pause until " + e.State.PausedUntil.UTC().Format(time.RFC3339) + " of " + e.State.PauseReason + heldWords(now),
		})
		e.State.PausedUntil, e.State.PauseReason = time.Time{}, ""
	}
	if len(removed) == 0 {
		removed = append(removed, errs.Field{
			Field: "hints", Code: "nothing_in_force", Message: "what the analysis wrote has ended, so nothing was removed" + heldWords(now),
		})
	}
	planned, err = e.follow(now, &before, CauseHint, by)
	return planned, removed, err
}
