package planner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// SessionFilter selects sessions of one tenant. Zero fields do not filter.
type SessionFilter struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
	Outcome    Result
	Before     SessionID // only sessions whose ID sorts below: the cursor of a list
	Limit      int       // at most so many; must be positive
}

// SuggestionFilter selects suggestions of one tenant. Zero fields do not filter.
type SuggestionFilter struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
	State      SuggestionState
	Before     SuggestionID
	Limit      int
}

// Spending is what a tenant has spent of its budget today.
type Spending struct {
	Day         string // UTC, such as 2026-11-21
	Tokens      int64
	Limit       int64 // 0: models are not asked
	Left        int64 // what may still be used: less than the limit leaves where the installation, which all tenants share, has less
	PerEndpoint int64
	ResetAt     time.Time
	Top         []EndpointSpending // the endpoints that spent most, at most ten
}

// EndpointSpending is what one endpoint spent.
type EndpointSpending struct {
	EndpointID endpoints.ID
	Tokens     int64
}

// Reviews is what people see of the planner, and where they decide. Every method is one transaction, scoped by tenant: what is another
// tenant's is an errs.NotFound.
type Reviews interface {
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	Session(ctx context.Context, tenant [16]byte, id SessionID) (Session, error)
	Suggestions(ctx context.Context, f SuggestionFilter) ([]Suggestion, error)
	// Decide approves or rejects a suggestion. What is approved is in force when it returns, or the error is an errs.Conflict and
	// nothing has changed: it was decided before, has expired, or is for a configuration or a state that the endpoint no longer has.
	Decide(ctx context.Context, by auditlog.Actor, id SuggestionID, approve bool) (Suggestion, error)
	Spending(ctx context.Context, tenant [16]byte) (Spending, error)
}

// Undoer takes back what the planner did. It is scoped by tenant as [Reviews] is.
type Undoer interface {
	// Undo takes back what an analysis wrote, as far as it or a later one of the same kind is in force, and returns the endpoint with
	// what was removed and whose it was. The planner does not write that again for [endpoints.HoldLife]. The error is an errs.Conflict
	// where the analysis wrote nothing.
	Undo(ctx context.Context, by auditlog.Actor, id SessionID) (*endpoints.Endpoint, []errs.Field, error)
}

// Wrote returns the kinds of changes that a session put in force, as [endpoints.Hold] names them. Where its calls are not on record, that
// is every kind. The error is an [errs.Conflict] where it changed nothing.
func (s Session) ChangedKinds() ([]string, error) {
	if s.Outcome != Acted {
		return nil, errs.New(errs.Conflict, "session_changed_nothing", fmt.Sprintf("analysis %s ended as %s and put nothing in force, so there is nothing to undo", s.ID, s.Outcome))
	}
	of := map[Tool]string{
		ToolProposeInterval: endpoints.HoldInterval, ToolClearHints: endpoints.HoldInterval,
		ToolProposeNextRun: endpoints.HoldOneShot, ToolPauseUntil: endpoints.HoldPause,
	}
	var kinds []string
	for _, c := range s.Calls {
		if kind := of[c.Tool]; kind != "" && !c.Refused && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		kinds = []string{endpoints.HoldInterval, endpoints.HoldOneShot, endpoints.HoldPause}
	}
	return kinds, nil
}

// Holds returns what the rejection of a suggestion forbids the planner from an instant on.
func (s Suggestion) Holds(by auditlog.Actor, now time.Time) (list []endpoints.Hold) {
	for kind, there := range map[string]bool{
		endpoints.HoldInterval: s.Plan.Interval != nil, endpoints.HoldOneShot: s.Plan.NextRun != nil, endpoints.HoldPause: s.Plan.Pause != nil,
	} {
		if there {
			list = append(list, endpoints.Hold{Kind: kind, Until: now.Add(endpoints.HoldLife), By: by.Name})
		}
	}
	return list
}

// Held returns an [errs.Conflict] where a person forbids the planner what the suggestion proposes.
func (s Suggestion) CheckHolds(holds []endpoints.Hold, now time.Time) error {
	return proposalContext{now: now, holds: holds}.checkHolds(s.Plan)
}

// Decision returns what the audit log says of a suggestion that was just decided.
func (s Suggestion) Decision(by auditlog.Actor) auditlog.Change {
	action := auditlog.Approve
	if s.State == Rejected {
		action = auditlog.Reject
	}
	return auditlog.Change{
		Act: auditlog.Act{By: by, Action: action}, Object: auditlog.Object{Kind: auditlog.Suggestion, ID: s.ID.String()},
		Before: map[string]any{"state": Pending},
		After:  map[string]any{"state": s.State, "endpointId": s.EndpointID.String()},
	}
}

// Approve puts a suggestion in force at an endpoint under its lock. The lives of its hints and its pause are bounded as for everybody; that
// the tempo changes no faster than the planner alone may change it is for the person who approves to judge. An endpoint that was edited
// since is an [errs.Conflict].
func (s Suggestion) Approve(e *endpoints.Endpoint, by auditlog.Actor, now time.Time) (*endpoints.Recorded, error) {
	if e.Version != s.Version {
		return nil, errs.New(errs.Conflict, "suggestion_stale", "the endpoint was edited since this was suggested; reject it, and wait for the next analysis")
	}
	return e.ApplyAdvice(now, by, author(s.Advisor), s.Plan.advice())
}
