package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
)

// PlannerReviews lists sessions of the planner and decides its suggestions. It implements
// planner.Reviews and planner.Undoer.
type PlannerReviews struct {
	*PlannerBudget

	endpoints *Endpoints
}

var (
	_ planner.Reviews = (*PlannerReviews)(nil)
	_ planner.Undoer  = (*PlannerReviews)(nil)
)

// NewPlannerReviews returns the reviews, with the limits of the planner's budget.
func NewPlannerReviews(db *States, limits PlannerLimits) *PlannerReviews {
	return &PlannerReviews{PlannerBudget: NewPlannerBudget(db.DB, limits), endpoints: NewEndpoints(db)}
}

// Sessions implements planner.Reviews.
func (s *PlannerReviews) Sessions(ctx context.Context, f planner.SessionFilter) (list []planner.Session, err error) {
	err = s.db.list(ctx, func(tx pgx.Tx) error {
		if err := s.known(ctx, tx, f.TenantID, f.EndpointID); err != nil {
			return err
		}
		rows, err := s.db.q.PlannerSessionList(ctx, tx, dbsqlc.PlannerSessionListParams{
			TenantID: f.TenantID, EndpointID: given(f.EndpointID), Outcome: optionalText(string(f.Outcome)), Before: given(f.Before),
			MaxRows: int32(f.Limit),
		})
		if err != nil {
			return fmt.Errorf("listing sessions: %w", err)
		}
		list = make([]planner.Session, len(rows))
		for i, row := range rows {
			if list[i], err = sessionOf(row); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// known returns an error if the filter names an endpoint that the tenant does not have.
func (s *PlannerReviews) known(ctx context.Context, tx pgx.Tx, tenant [16]byte, id endpoints.ID) error {
	if id == (endpoints.ID{}) {
		return nil
	}
	if _, err := s.db.q.EndpointGet(ctx, tx, dbsqlc.EndpointGetParams{ID: id, TenantID: tenant}); err != nil {
		return notFound(err, id)
	}
	return nil
}

// Session implements planner.Reviews.
func (s *PlannerReviews) Session(ctx context.Context, tenant [16]byte, id planner.SessionID) (planner.Session, error) {
	row, err := s.db.q.PlannerSessionGet(ctx, s.db.pool, dbsqlc.PlannerSessionGetParams{ID: id, TenantID: tenant})
	if missing(err) {
		return planner.Session{}, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no session %s", id))
	}
	if err != nil {
		return planner.Session{}, fmt.Errorf("reading session %s: %w", id, translate(err))
	}
	return sessionOf(row)
}

// Suggestions implements planner.Reviews.
func (s *PlannerReviews) Suggestions(ctx context.Context, f planner.SuggestionFilter) (list []planner.Suggestion, err error) {
	err = s.db.list(ctx, func(tx pgx.Tx) error {
		if err := s.known(ctx, tx, f.TenantID, f.EndpointID); err != nil {
			return err
		}
		now, err := s.db.decisionTime(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := s.db.q.PlannerSuggestionList(ctx, tx, suggestionPage(f, now))
		if err != nil {
			return fmt.Errorf("listing suggestions: %w", err)
		}
		list = make([]planner.Suggestion, len(rows))
		for i, row := range rows {
			if list[i], err = suggestionOf(row, now); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// suggestionPage returns the query parameters of a filter. Rows have no expired state: a pending
// suggestion past its end has expired.
func suggestionPage(f planner.SuggestionFilter, now time.Time) dbsqlc.PlannerSuggestionListParams {
	p := dbsqlc.PlannerSuggestionListParams{
		TenantID: f.TenantID, EndpointID: given(f.EndpointID), Before: given(f.Before),
		MaxRows: int32(f.Limit),
	}
	switch f.State {
	case planner.Pending, planner.Replaced:
		p.States, p.OpenAt = []string{string(f.State)}, &now
	case planner.Expired:
		p.States, p.OverAt = []string{string(planner.Pending), string(planner.Replaced)}, &now
	case planner.Approved, planner.Rejected:
		p.States = []string{string(f.State)}
	}
	return p
}

// Decide implements planner.Reviews.
func (s *PlannerReviews) Decide(ctx context.Context, by auditlog.Actor, id planner.SuggestionID, approve bool) (decided planner.Suggestion, err error) {
	r := &revision{act: auditlog.Act{By: by, Action: auditlog.Hint}}
	write := func(tx pgx.Tx) error {
		now, err := s.db.decisionTime(ctx, tx)
		if err != nil {
			return err
		}
		if decided, err = s.decide(ctx, tx, dbsqlc.PlannerSuggestionDecideParams{
			ID: id, TenantID: by.TenantID, State: string(stateFor(approve)), Now: now, DecidedBy: storable(by.Name),
		}); err != nil {
			return err
		}
		if err := s.db.audited(ctx, tx, decided.Decision(by)); err != nil {
			return err
		}
		if !approve {
			return s.forbid(ctx, tx, decided.EndpointID, decided.Holds(by, now))
		}
		r.id = decided.EndpointID
		r.change = func(e *endpoints.Endpoint, now time.Time) (*endpoints.Recorded, error) {
			return decided.Approve(e, by, now)
		}
		return s.endpoints.changeIn(ctx, tx, r)
	}
	if err := s.db.withPartitions(ctx, r.days, func() error { return s.db.tx(ctx, write) }); err != nil {
		return planner.Suggestion{}, err
	}
	if r.changed != nil {
		s.endpoints.returning(ctx, r)
	}
	return decided, nil
}

// forbid stores a hold of the planner by a person at an endpoint.
func (s *PlannerReviews) forbid(ctx context.Context, tx pgx.Tx, id endpoints.ID, holds []endpoints.Hold) error {
	for _, h := range holds {
		if err := s.db.q.PlannerHoldSet(ctx, tx, holdRow(id, h)); err != nil {
			return fmt.Errorf("keeping that the planner may not write the %s of endpoint %s: %w", h.Kind, id, err)
		}
	}
	return nil
}

// Undo implements planner.Undoer.
func (s *PlannerReviews) Undo(ctx context.Context, by auditlog.Actor, id planner.SessionID) (*endpoints.Endpoint, []errs.Field, error) {
	session, err := s.Session(ctx, by.TenantID, id)
	if err != nil {
		return nil, nil, err
	}
	kinds, err := session.ChangedKinds()
	if err != nil {
		return nil, nil, err
	}
	var removed []errs.Field
	e, err := s.endpoints.Change(ctx, auditlog.Act{By: by, Action: auditlog.Undo}, session.EndpointID,
		func(e *endpoints.Endpoint, now time.Time) (planned *endpoints.Recorded, err error) {
			planned, removed, err = e.Undo(now, by, kinds)
			return planned, err
		})
	return e, removed, err
}

func stateFor(approve bool) planner.SuggestionState {
	if approve {
		return planner.Approved
	}
	return planner.Rejected
}

// decide stores the decision on a pending suggestion, or returns the reason why it cannot be
// decided.
func (s *PlannerReviews) decide(ctx context.Context, tx pgx.Tx, p dbsqlc.PlannerSuggestionDecideParams) (planner.Suggestion, error) {
	row, err := s.db.q.PlannerSuggestionDecide(ctx, tx, p)
	if err == nil {
		return suggestionOf(row, p.Now)
	}
	if !missing(err) {
		return planner.Suggestion{}, fmt.Errorf("deciding suggestion %s: %w", planner.SuggestionID(p.ID), err)
	}
	row, err = s.db.q.PlannerSuggestionGet(ctx, tx, dbsqlc.PlannerSuggestionGetParams{ID: p.ID, TenantID: p.TenantID})
	if missing(err) {
		return planner.Suggestion{}, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no suggestion %s", planner.SuggestionID(p.ID)))
	}
	if err != nil {
		return planner.Suggestion{}, fmt.Errorf("reading suggestion %s: %w", planner.SuggestionID(p.ID), err)
	}
	found, err := suggestionOf(row, p.Now)
	if err != nil {
		return found, err
	}
	return found, errs.New(errs.Conflict, "suggestion_decided", fmt.Sprintf("suggestion %s waits no longer: it is %s", found.ID, found.State))
}
