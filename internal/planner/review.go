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
	// Before selects IDs below it: the cursor of a list.
	Before SessionID
	Limit  int // maximum number of results; must be positive
}

// SuggestionFilter selects suggestions of one tenant. Zero fields do not filter.
type SuggestionFilter struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
	State      SuggestionState
	Before     SuggestionID
	Limit      int
}

// Spending is a tenant's use of its token budget today.
type Spending struct {
	Day    string // UTC, such as 2026-11-21
	Tokens int64
	Limit  int64 // 0: models are disabled
	// Left is what the tenant may still use. It is less than the rest of the limit if the shared
	// budget of the installation has less.
	Left        int64
	PerEndpoint int64
	ResetAt     time.Time
	Top         []EndpointSpending // highest use first, at most ten
}

// EndpointSpending is the use of one endpoint.
type EndpointSpending struct {
	EndpointID endpoints.ID
	Tokens     int64
}

// Reviews lists sessions and suggestions for people, and takes their decisions. Every method is one
// transaction within one tenant: an object of another tenant is an errs.NotFound.
type Reviews interface {
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	Session(ctx context.Context, tenant [16]byte, id SessionID) (Session, error)
	Suggestions(ctx context.Context, f SuggestionFilter) ([]Suggestion, error)
	// Decide approves or rejects a suggestion. An approved plan is in force on return. The error is
	// an errs.Conflict, and nothing changes, if the suggestion was decided before, has expired, or
	// no longer fits the endpoint's configuration or state.
	Decide(ctx context.Context, by auditlog.Actor, id SuggestionID, approve bool) (Suggestion, error)
	Spending(ctx context.Context, tenant [16]byte) (Spending, error)
}

// Undoer reverts changes of the planner. It is scoped by tenant like [Reviews].
type Undoer interface {
	// Undo removes the changes of an analysis that are still in force, or those of a later analysis
	// of the same kind. It returns the endpoint, and the removed changes with their authors. The
	// planner does not repeat them for [endpoints.HoldLife]. The error is an errs.Conflict if the
	// analysis changed nothing.
	Undo(ctx context.Context, by auditlog.Actor, id SessionID) (*endpoints.Endpoint, []errs.Field, error)
}

// ChangedKinds returns the kinds of changes that a session put in force, as [endpoints.Hold] names
// them. If its calls are not recorded, it returns every kind. The error is an [errs.Conflict] if
// the session changed nothing.
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

// Holds returns the holds that a rejection of the suggestion places on the planner.
func (s Suggestion) Holds(by auditlog.Actor, now time.Time) (list []endpoints.Hold) {
	for kind, there := range map[string]bool{
		endpoints.HoldInterval: s.Plan.Interval != nil, endpoints.HoldOneShot: s.Plan.NextRun != nil, endpoints.HoldPause: s.Plan.Pause != nil,
	} {
		if there {
			list = append(list, endpoints.Hold{
				Kind:  kind,
				Until: now.Add(endpoints.HoldLife),
				By:    by.Name,
			})
		}
	}
	return list
}

// CheckHolds returns an [errs.Conflict] if a hold blocks a change of the suggestion.
func (s Suggestion) CheckHolds(holds []endpoints.Hold, now time.Time) error {
	return proposalContext{now: now, holds: holds}.checkHolds(s.Plan)
}

// Decision returns the audit log entry of a decided suggestion.
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

// Approve puts a suggestion in force under the endpoint's row lock. The limits on hints and pauses
// apply; the planner's rate limits do not, because a person approves. The error is an
// [errs.Conflict] if the endpoint was edited since.
func (s Suggestion) Approve(e *endpoints.Endpoint, by auditlog.Actor, now time.Time) (*endpoints.Recorded, error) {
	if e.Version != s.Version {
		return nil, errs.New(errs.Conflict, "suggestion_stale", "the endpoint was edited since this was suggested; reject it, and wait for the next analysis")
	}
	return e.ApplyAdvice(now, by, author(s.Advisor), s.Plan.advice())
}
