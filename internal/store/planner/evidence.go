package planner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/planner"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// Evidence reads the planner's evidence. It implements planner.Evidence.
type Evidence struct {
	db        *pg.DB
	endpoints *endpointstore.Store
	fleet     fleetSample
}

var _ planner.EvidenceStore = (*Evidence)(nil)

// NewEvidence returns the reader of the planner's evidence.
func NewEvidence(db *endpointstore.States) *Evidence {
	return &Evidence{db: db.DB, endpoints: endpointstore.NewStore(db)}
}

// slack is the longest time from the due time of a run to its end, for runs that ended inside a
// window.
const slack = time.Hour

// Load implements planner.Evidence.
func (s *Evidence) Load(ctx context.Context, a planner.Account) (m planner.Inputs, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		m = planner.Inputs{}
		if m.Endpoint, err = s.endpoints.Read(ctx, tx, a.TenantID, a.EndpointID); err != nil {
			return err
		}
		if m.Now, err = s.db.DecisionTime(ctx, tx); err != nil {
			return err
		}
		if m.Runs, err = s.runs(ctx, tx, a.EndpointID, m.Now.Add(-24*time.Hour), planner.HealthSample); err != nil {
			return err
		}
		if m.Siblings, err = s.siblings(ctx, tx, m); err != nil {
			return err
		}
		if m.Holds, err = holds(ctx, tx, s.db, a.EndpointID); err != nil || !strained(m) {
			return err
		}
		m.FleetSlowdown, err = s.fleet.look(ctx, s.db, tx, m.Now)
		return err
	})
	return m, err
}

// runs returns the newest runs of an endpoint with a due time after an instant, without wide
// columns.
func (s *Evidence) runs(ctx context.Context, tx pgx.Tx, id endpoints.ID, since time.Time, limit int32) ([]runs.Run, error) {
	rows, err := s.db.Q.PlannerRuns(ctx, tx, dbsqlc.PlannerRunsParams{
		EndpointID: id,
		Since:      since.Add(-slack),
		MaxRows:    limit,
	})
	if err != nil {
		return nil, fmt.Errorf("reading the newest runs of endpoint %s: %w", id, err)
	}
	list := make([]runs.Run, len(rows))
	for i, row := range rows {
		list[i] = runs.Run{
			ID:         row.ID,
			EndpointID: id,
			StartedAt:  row.StartedAt,
			FinishedAt: row.FinishedAt,
			Source:     row.Source,
			Outcome: runs.Outcome{
				Status:        runs.Status(row.Status),
				Reason:        runs.Reason(row.ReasonCode),
				StatusCode:    int(pg.OrZero(row.StatusCode)),
				Phases:        runs.Phases{Wait: time.Duration(row.LatencyUs) * time.Microsecond},
				ResponseBytes: row.ResponseBytes,
				BodyDigest:    history.Digest(row.BodyDigest),
			},
		}
	}
	return list, nil
}

// groupScan bounds the endpoints of a group that are read for the siblings of an advisor.
const groupScan = 5 * planner.MaxSiblings

// siblings returns the other endpoints of the group for an advisor: failing ones first, then the
// newest.
func (s *Evidence) siblings(ctx context.Context, tx pgx.Tx, m planner.Inputs) ([]planner.SiblingHistory, error) {
	group := m.Endpoint.Spec.Labels[planner.GroupLabel]
	if group == "" {
		return nil, nil
	}
	rows, err := s.db.Q.PlannerGroup(ctx, tx, dbsqlc.PlannerGroupParams{
		TenantID:   m.Endpoint.TenantID,
		GroupLabel: planner.GroupLabel,
		Name:       group,
		EndpointID: m.Endpoint.ID,
		MaxRows:    groupScan,
	})
	if err != nil {
		return nil, fmt.Errorf("reading the group %s: %w", group, err)
	}
	list, err := s.endpoints.WithStates(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e *endpoints.Endpoint) bool { return e.Fault != nil })
	failing := func(e *endpoints.Endpoint) int { return min(e.State.FailureCount, 1) }
	slices.SortStableFunc(list, func(a, b *endpoints.Endpoint) int { return failing(b) - failing(a) })
	fellows := make([]planner.SiblingHistory, 0, planner.MaxSiblings)
	for _, e := range list[:min(len(list), planner.MaxSiblings)] {
		newest, err := s.runs(ctx, tx, e.ID, m.Now.Add(-time.Hour), planner.SiblingSample)
		if err != nil {
			return nil, err
		}
		fellows = append(fellows, planner.SiblingHistory{Endpoint: e, Runs: newest})
	}
	return fellows, nil
}

// Responses implements planner.Evidence. Runs without an answer are left out. The endpoint is read
// again, because it may have been archived or withdrawn from the planner since the session began.
func (s *Evidence) Responses(ctx context.Context, a planner.Account, limit int) (list []runs.Run, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		list = nil
		e, err := s.endpoints.Read(ctx, tx, a.TenantID, a.EndpointID)
		if errs.CodeOf(err) == errs.NotFound || err == nil && !planner.VisibleToAdvisor(e) {
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := s.db.Q.RunList(ctx, tx, dbsqlc.RunListParams{
			TenantID:   a.TenantID,
			EndpointID: (*[16]byte)(&a.EndpointID),
			MaxRows:    4 * planner.MaxResponses,
		})
		if err != nil {
			return fmt.Errorf("listing the newest runs of endpoint %s: %w", a.EndpointID, err)
		}
		for _, row := range rows {
			if row.StatusCode == nil || len(list) == limit {
				continue
			}
			run := history.RunOf(row)
			if err := history.AddBody(ctx, tx, s.db, &run); err != nil {
				return err
			}
			list = append(list, run)
		}
		return nil
	})
	return list, err
}

// tidyBatches bounds one tidy pass, at a thousand rows of each kind per batch. That is more than
// planners write between two passes.
const tidyBatches = 50

// Purge implements planner.Evidence.
func (s *Evidence) Purge(ctx context.Context, before time.Time) error {
	first := [16]byte(planner.FirstSessionID(before))
	drops := map[string]func() (int64, error){
		"sessions":    func() (int64, error) { return s.db.Q.PlannerSessionDropBefore(ctx, s.db.Pool, first) },
		"suggestions": func() (int64, error) { return s.db.Q.PlannerSuggestionDropBefore(ctx, s.db.Pool, first) },
	}
	for what, drop := range drops {
		for range tidyBatches {
			dropped, err := drop()
			if err != nil {
				return fmt.Errorf("forgetting old %s: %w", what, pg.Translate(err))
			}
			if dropped == 0 {
				break
			}
		}
	}
	if _, err := s.db.Q.PlannerHoldDropBefore(ctx, s.db.Pool, before); err != nil {
		return fmt.Errorf("forgetting words that no longer stand: %w", pg.Translate(err))
	}
	_, err := s.db.Q.PlannerSpendDropBefore(ctx, s.db.Pool, before.UTC().Format(time.DateOnly))
	return pg.Translate(err)
}
