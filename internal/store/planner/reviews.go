package planner

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
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

// Reviews lists sessions of the planner and decides its suggestions. It implements
// planner.Reviews and planner.Undoer.
type Reviews struct {
	*Budget

	endpoints *endpointstore.Store
}

var (
	_ planner.Reviews = (*Reviews)(nil)
	_ planner.Undoer  = (*Reviews)(nil)
)

// NewReviews returns the reviews, with the limits of the planner's budget.
func NewReviews(db *endpointstore.States, limits Limits) *Reviews {
	return &Reviews{Budget: NewBudget(db.DB, limits), endpoints: endpointstore.NewStore(db)}
}

// Sessions implements planner.Reviews.
func (s *Reviews) Sessions(ctx context.Context, f planner.SessionFilter) (list []planner.Session, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		if err := s.known(ctx, tx, f.TenantID, f.EndpointID); err != nil {
			return err
		}
		rows, err := s.db.Q.PlannerSessionList(ctx, tx, dbsqlc.PlannerSessionListParams{
			TenantID:   f.TenantID,
			EndpointID: pg.Given(f.EndpointID),
			Outcome:    pg.OptionalText(string(f.Outcome)),
			Before:     pg.Given(f.Before),
			MaxRows:    int32(f.Limit),
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
func (s *Reviews) known(ctx context.Context, tx pgx.Tx, tenant [16]byte, id endpoints.ID) error {
	if id == (endpoints.ID{}) {
		return nil
	}
	if _, err := s.db.Q.EndpointGet(ctx, tx, dbsqlc.EndpointGetParams{ID: id, TenantID: tenant}); err != nil {
		return pg.NotFound(err, id)
	}
	return nil
}

// Session implements planner.Reviews.
func (s *Reviews) Session(ctx context.Context, tenant [16]byte, id planner.SessionID) (planner.Session, error) {
	row, err := s.db.Q.PlannerSessionGet(ctx, s.db.Pool, dbsqlc.PlannerSessionGetParams{ID: id, TenantID: tenant})
	if pg.IsMissing(err) {
		return planner.Session{}, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no session %s", id))
	}
	if err != nil {
		return planner.Session{}, fmt.Errorf("reading session %s: %w", id, pg.Translate(err))
	}
	return sessionOf(row)
}

// Suggestions implements planner.Reviews.
func (s *Reviews) Suggestions(ctx context.Context, f planner.SuggestionFilter) (list []planner.Suggestion, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		if err := s.known(ctx, tx, f.TenantID, f.EndpointID); err != nil {
			return err
		}
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := s.db.Q.PlannerSuggestionList(ctx, tx, suggestionPage(f, now))
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
		TenantID:   f.TenantID,
		EndpointID: pg.Given(f.EndpointID),
		Before:     pg.Given(f.Before),
		MaxRows:    int32(f.Limit),
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
func (s *Reviews) Decide(ctx context.Context, by auditlog.Actor, id planner.SuggestionID, approve bool) (decided planner.Suggestion, err error) {
	r := &endpointstore.Revision{Act: auditlog.Act{By: by, Action: auditlog.Hint}}
	write := func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return err
		}
		if decided, err = s.decide(ctx, tx, dbsqlc.PlannerSuggestionDecideParams{
			ID:        id,
			TenantID:  by.TenantID,
			State:     string(stateFor(approve)),
			Now:       now,
			DecidedBy: pg.Storable(by.Name),
		}); err != nil {
			return err
		}
		if err := s.db.Audited(ctx, tx, decided.Decision(by)); err != nil {
			return err
		}
		if !approve {
			return s.forbid(ctx, tx, decided.EndpointID, decided.Holds(by, now))
		}
		r.ID = decided.EndpointID
		r.Change = func(e *endpoints.Endpoint, now time.Time) (*endpoints.Recorded, error) {
			return decided.Approve(e, by, now)
		}
		return s.endpoints.ChangeIn(ctx, tx, r)
	}
	if err := s.db.WithPartitions(ctx, r.Days, func() error { return s.db.Tx(ctx, write) }); err != nil {
		return planner.Suggestion{}, err
	}
	if r.Changed != nil {
		s.endpoints.Returning(ctx, r)
	}
	return decided, nil
}

// forbid stores a hold of the planner by a person at an endpoint.
func (s *Reviews) forbid(ctx context.Context, tx pgx.Tx, id endpoints.ID, holds []endpoints.Hold) error {
	for _, h := range holds {
		if err := s.db.Q.PlannerHoldSet(ctx, tx, endpointstore.HoldRow(id, h)); err != nil {
			return fmt.Errorf("keeping that the planner may not write the %s of endpoint %s: %w", h.Kind, id, err)
		}
	}
	return nil
}

// Undo implements planner.Undoer.
func (s *Reviews) Undo(ctx context.Context, by auditlog.Actor, id planner.SessionID) (*endpoints.Endpoint, []errs.Field, error) {
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
func (s *Reviews) decide(ctx context.Context, tx pgx.Tx, p dbsqlc.PlannerSuggestionDecideParams) (planner.Suggestion, error) {
	row, err := s.db.Q.PlannerSuggestionDecide(ctx, tx, p)
	if err == nil {
		return suggestionOf(row, p.Now)
	}
	if !pg.IsMissing(err) {
		return planner.Suggestion{}, fmt.Errorf("deciding suggestion %s: %w", planner.SuggestionID(p.ID), err)
	}
	row, err = s.db.Q.PlannerSuggestionGet(ctx, tx, dbsqlc.PlannerSuggestionGetParams{ID: p.ID, TenantID: p.TenantID})
	if pg.IsMissing(err) {
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
