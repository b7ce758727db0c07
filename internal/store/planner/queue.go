// Package planner stores the work of planners: their queue, sessions, suggestions and token budget.
package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/pg"
)

// Bounds of one scan pass, so that it takes milliseconds with any number of endpoints.
const (
	scanFinished  = 500  // rows of finished_runs per tenant, with up to 50 runs each
	scanEndpoints = 1000 // endpoints of the round through all endpoints
	scanNewest    = 100
	scanTurned    = 200 // endpoints whose failures began or ended, for the reviews of their groups
	scanGroups    = 20
	scanRoles     = 10 // endpoints per role of a group
)

// Queue is the queue of endpoints that wait for analysis. It implements planner.Queue for
// one planner.
type Queue struct {
	db        *pg.DB
	endpoints *endpointstore.Store
	id        [16]byte
	lock      time.Duration
}

var _ planner.Queue = (*Queue)(nil)

// NewQueue returns the queue for a planner with an ID of its own; lock is the duration of
// its claims.
func NewQueue(db *endpointstore.States, id [16]byte, lock time.Duration) *Queue {
	return &Queue{
		db:        db.DB,
		endpoints: endpointstore.NewStore(db),
		id:        id,
		lock:      lock,
	}
}

// DetectChanges implements planner.Queue.
func (s *Queue) DetectChanges(ctx context.Context) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		at, err := s.db.Q.PlannerScanLock(ctx, tx, s.db.Now())
		if pg.IsMissing(err) { // Another planner holds the row.
			return nil
		}
		if err != nil {
			return fmt.Errorf("locking the scan cursor of the planners: %w", err)
		}
		if err := s.db.Q.PlanByKey(ctx, tx); err != nil {
			return fmt.Errorf("asking for plans by key: %w", err)
		}
		move := dbsqlc.PlannerScanAdvanceParams{}
		finished, err := s.finished(ctx, tx, at, &move.Txid)
		if err != nil {
			return err
		}
		scanned, err := s.db.Q.PlannerScanEndpoints(ctx, tx, dbsqlc.PlannerScanEndpointsParams{After: at.EndpointCursor, MaxRows: scanEndpoints})
		if err != nil {
			return fmt.Errorf("scanning the endpoints: %w", err)
		}
		if len(scanned) == scanEndpoints { // A shorter page ends the round, which restarts.
			move.EndpointCursor = scanned[scanEndpoints-1]
		}
		newest, err := s.db.Q.PlannerScanNewest(ctx, tx, scanNewest)
		if err != nil {
			return fmt.Errorf("looking for new endpoints: %w", err)
		}
		if err := s.db.Q.PlannerScanAdvance(ctx, tx, move); err != nil {
			return fmt.Errorf("storing the scan cursor of the planners: %w", err)
		}
		return s.judge(ctx, tx, at.Now, slices.Concat(scanned, newest, finished))
	})
}

// finished returns the endpoints with runs finished since the last pass, and the next cursor.
func (s *Queue) finished(ctx context.Context, tx pgx.Tx, at *dbsqlc.PlannerScanLockRow, next *int64) ([]dbsqlc.UUID, error) {
	rows, err := s.db.Q.PlannerScanFinished(ctx, tx, dbsqlc.PlannerScanFinishedParams{
		FromTxid: at.Txid,
		Until:    at.Until,
		MaxRows:  scanFinished,
	})
	if err != nil {
		return nil, fmt.Errorf("reading which runs finished: %w", err)
	}
	// The round through all endpoints finds those beyond the bound, because it is never far behind.
	*next = max(at.Txid, at.Until)
	var list []dbsqlc.UUID
	for _, row := range rows {
		list = append(list, row.EndpointIds...)
	}
	return list, nil
}

// judge makes the endpoints due that need an analysis.
func (s *Queue) judge(ctx context.Context, tx pgx.Tx, now time.Time, met []dbsqlc.UUID) error {
	slices.SortFunc(met, func(a, b dbsqlc.UUID) int { return slices.Compare(a[:], b[:]) })
	ids := slices.Compact(met)
	if len(ids) == 0 {
		return nil
	}
	if _, err := s.db.Q.PlannerInsert(ctx, tx, dbsqlc.PlannerInsertParams{Now: now, EndpointIds: ids}); err != nil {
		return fmt.Errorf("adding new endpoints to the planner's queue: %w", err)
	}
	turned, err := s.db.Q.PlannerTriggerChanged(ctx, tx, dbsqlc.PlannerTriggerChangedParams{Now: now, EndpointIds: ids})
	if err != nil {
		return fmt.Errorf("triggering changed endpoints: %w", err)
	}
	if err := s.triggerGroups(ctx, tx, now, turned); err != nil {
		return err
	}
	if _, err := s.db.Q.PlannerUnpark(ctx, tx, dbsqlc.PlannerUnparkParams{Now: now, EndpointIds: ids}); err != nil {
		return fmt.Errorf("requeueing endpoints without an analysis: %w", err)
	}
	return nil
}

// triggerGroups makes endpoints with a role due in the groups in which failures began or ended.
// Endpoints beyond its bounds are analysed by their own time.
func (s *Queue) triggerGroups(ctx context.Context, tx pgx.Tx, now time.Time, turned []dbsqlc.UUID) error {
	if len(turned) == 0 {
		return nil
	}
	p := dbsqlc.PlannerTriggerGroupsParams{
		Now:        now,
		GroupLabel: planner.GroupLabel,
		RoleLabel:  planner.RoleLabel,
		Roles:      planner.Roles(),
		MaxGroups:  scanGroups,
		MaxMembers: scanRoles,
	}
	p.EndpointIds = append(p.EndpointIds, turned[:min(len(turned), scanTurned)]...)
	if _, err := s.db.Q.PlannerTriggerGroups(ctx, tx, p); err != nil {
		return fmt.Errorf("raising the urgency in the groups of %d endpoints: %w", len(p.EndpointIds), err)
	}
	return nil
}

// Claim implements planner.Queue.
func (s *Queue) Claim(ctx context.Context, limit int) ([]planner.Claim, error) {
	rows, err := s.db.Q.PlannerClaim(ctx, s.db.Pool, dbsqlc.PlannerClaimParams{
		Now:       s.db.Now(),
		MaxRows:   int32(limit),
		PlannerID: s.id,
		LockMs:    s.lock.Milliseconds(),
	})
	if err != nil {
		return nil, pg.Translate(err)
	}
	tickets := make([]planner.Claim, len(rows))
	for i, row := range rows {
		tickets[i] = planner.Claim{
			Account: planner.Account{TenantID: row.TenantID, EndpointID: endpoints.ID(row.EndpointID)}, Token: row.ClaimToken,
			Trigger: planner.Trigger(row.Trigger),
		}
		if err := readJSON(row.Memory, &tickets[i].Memory, "the planner's memory of endpoint "+tickets[i].Account.EndpointID.String()); err != nil {
			return nil, err
		}
	}
	return tickets, nil
}

// Release implements planner.Queue.
func (s *Queue) Release(ctx context.Context, tickets []planner.Claim) error {
	p := dbsqlc.PlannerReleaseParams{Now: s.db.Now(), PlannerID: s.id}
	for _, t := range tickets {
		p.EndpointIds = append(p.EndpointIds, t.Account.EndpointID)
		p.Tokens = append(p.Tokens, t.Token)
	}
	_, err := s.db.Q.PlannerRelease(ctx, s.db.Pool, p)
	return pg.Translate(err)
}

// Park implements planner.Queue.
func (s *Queue) Park(ctx context.Context, t planner.Claim, why planner.ParkReason, version int64) error {
	id := t.Account.EndpointID
	var rows int64
	var err error
	if why == planner.ParkedArchived {
		rows, err = s.db.Q.PlannerDelete(ctx, s.db.Pool, dbsqlc.PlannerDeleteParams{
			EndpointID: id,
			ClaimToken: t.Token,
			PlannerID:  s.id,
		})
	} else {
		rows, err = s.db.Q.PlannerPark(ctx, s.db.Pool, dbsqlc.PlannerParkParams{
			EndpointID:  id,
			ClaimToken:  t.Token,
			PlannerID:   s.id,
			Parked:      string(why),
			SeenVersion: version,
		})
	}
	if err == nil && rows == 0 {
		return planner.ErrClaimLost
	}
	return pg.Translate(err)
}

// Complete implements planner.Queue.
func (s *Queue) Complete(ctx context.Context, t planner.Claim, c planner.Completion) error {
	r := &endpointstore.Revision{Act: plannerAct(t.Account.TenantID, "planner:"+c.Session.Advisor), ID: t.Account.EndpointID}
	write := func(tx pgx.Tx) (err error) {
		if err := s.hold(ctx, tx, t); err != nil {
			return err
		}
		if c.Apply != nil {
			r.Change = func(e *endpoints.Endpoint, now time.Time) (*endpoints.Recorded, error) { // The schedule is locked, so that no further change can come.
				holds, err := holds(ctx, tx, s.db, e.ID)
				if err != nil {
					return nil, err
				}
				return c.Apply(e, holds, now)
			}
			err = s.endpoints.ChangeIn(ctx, tx, r)
		} else {
			r.Now, err = s.db.DecisionTime(ctx, tx)
		}
		if err != nil {
			return err
		}
		if r.Changed != nil && r.Changed.PausedAt(r.Now) {
			if err := noticestore.RaisePaused(ctx, tx, s.db, r.Now, r.Changed); err != nil {
				return err
			}
		}
		c.Session.FinishedAt = r.Now
		return s.record(ctx, tx, t, c)
	}
	if err := s.db.WithPartitions(ctx, r.Days, func() error { return s.db.Tx(ctx, write) }); err != nil {
		return unwritable(err)
	}
	if r.Changed != nil {
		s.endpoints.Returning(ctx, r)
	}
	return nil
}

// unwritable marks an error caused by values of a session. They come from the advisor and may be
// out of range, malformed or too large.
func unwritable(err error) error {
	if refused, found := errors.AsType[*pgconn.PgError](err); found && pg.HasClass(refused, "22", "54") {
		return fmt.Errorf("%w: %w", planner.ErrUnwritable, err)
	}
	return err
}

// hold checks the claim and locks its row until the transaction ends.
func (s *Queue) hold(ctx context.Context, tx pgx.Tx, t planner.Claim) error {
	_, err := s.db.Q.PlannerClaimLock(ctx, tx, dbsqlc.PlannerClaimLockParams{
		EndpointID: t.Account.EndpointID,
		ClaimToken: t.Token,
		PlannerID:  s.id,
		Now:        s.db.Now(),
	})
	if pg.IsMissing(err) {
		return planner.ErrClaimLost
	}
	if err != nil {
		return fmt.Errorf("holding the claim of endpoint %s: %w", t.Account.EndpointID, err)
	}
	return nil
}

// record writes the session with its effects and ends the claim.
func (s *Queue) record(ctx context.Context, tx pgx.Tx, t planner.Claim, c planner.Completion) error {
	row, err := sessionRow(c.Session)
	if err != nil {
		return err
	}
	if err := s.db.Q.PlannerSessionInsert(ctx, tx, row); err != nil {
		return fmt.Errorf("inserting session %s: %w", c.Session.ID, err)
	}
	if c.Suggestion != nil {
		holds, err := holds(ctx, tx, s.db, t.Account.EndpointID)
		if err != nil {
			return err
		}
		if err := c.Suggestion.CheckHolds(holds, c.Session.FinishedAt); err != nil {
			return err
		}
		row, err := suggestionRow(c.Suggestion)
		if err != nil {
			return err
		}
		if err := s.db.Q.PlannerSuggestionInsert(ctx, tx, row); err != nil {
			return fmt.Errorf("inserting suggestion %s: %w", c.Suggestion.ID, err)
		}
		d := notices.Detail{SuggestionID: c.Suggestion.ID.String(), Reason: pg.Storable(c.Suggestion.Reasoning)}
		suggested := noticestore.Alarm{
			EndpointID: t.Account.EndpointID,
			Event:      notices.Suggestion,
			Detail:     d,
		}
		if err := noticestore.Raise(ctx, tx, s.db, c.Session.FinishedAt, suggested); err != nil {
			return err
		}
	}
	memory, err := writeJSON(c.Memory, "the planner's memory")
	if err != nil {
		return err
	}
	rows, err := s.db.Q.PlannerClaimEnd(ctx, tx, dbsqlc.PlannerClaimEndParams{
		EndpointID:  t.Account.EndpointID,
		ClaimToken:  t.Token,
		NotBefore:   c.NotBefore,
		DueAt:       c.NextAt,
		Memory:      memory,
		SeenVersion: c.Session.Version,
		LastSession: (*[16]byte)(&c.Session.ID),
		SeenStatus:  pg.OptionalText(c.SeenStatus),
	})
	return endpointstore.OneRow(rows, err, "ending the claim of", t.Account.EndpointID)
}
