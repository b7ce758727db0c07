package planner

import (
	"context"
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
	return e.Take(now, by, author(s.Advisor), s.Plan.advice())
}
