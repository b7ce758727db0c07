package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Decisions returns up to limit decisions about an endpoint after a position of its ledger, newest
// first. Finishes are in the order of their due times, other decisions in that of their making;
// both are merged by their instants. It returns none if the tenant has no such endpoint.
func (s *Store) Decisions(ctx context.Context, tenant [16]byte, id endpoints.ID, after endpoints.LedgerPosition, limit int) ([]endpoints.LedgerDecision, error) {
	var finishes, changes []endpoints.LedgerDecision
	err := s.db.Snapshot(ctx, func(tx pgx.Tx) (err error) {
		if finishes, err = s.finishes(ctx, tx, dbsqlc.RunDecisionListParams{
			EndpointID: id,
			TenantID:   tenant,
			Before:     orHighest(after.Run),
			MaxRows:    int32(limit),
		}); err != nil {
			return err
		}
		changes, err = s.changes(ctx, tx, dbsqlc.DecisionListParams{
			EndpointID: id,
			TenantID:   tenant,
			Before:     cmp.Or(after.Change, math.MaxInt64),
			MaxRows:    int32(limit),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return merge(finishes, changes, after, limit), nil
}

// orHighest returns an ID, or the highest one for the zero ID.
func orHighest(id [16]byte) [16]byte {
	if id == [16]byte{} {
		copy(id[:], slices.Repeat([]byte{math.MaxUint8}, len(id)))
	}
	return id
}

func (s *Store) finishes(ctx context.Context, tx pgx.Tx, p dbsqlc.RunDecisionListParams) ([]endpoints.LedgerDecision, error) {
	rows, err := s.db.Q.RunDecisionList(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("listing the finishes of endpoint %s: %w", endpoints.ID(p.EndpointID), err)
	}
	list := make([]endpoints.LedgerDecision, len(rows))
	for i, row := range rows {
		r := endpoints.Recorded{
			At:      row.DecidedAt,
			Cause:   endpoints.CauseFinish,
			Version: row.Version,
		}
		if list[i].Recorded, err = withDecision(r, pg.OrZero(row.NextRunAt), pg.OrZero(row.NextSource), row.NextSteps); err != nil {
			return nil, err
		}
		list[i].RunID = row.ID
	}
	return list, nil
}

func (s *Store) changes(ctx context.Context, tx pgx.Tx, p dbsqlc.DecisionListParams) ([]endpoints.LedgerDecision, error) {
	rows, err := s.db.Q.DecisionList(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("listing the decisions about endpoint %s: %w", endpoints.ID(p.EndpointID), err)
	}
	list := make([]endpoints.LedgerDecision, len(rows))
	for i, row := range rows {
		if list[i].Recorded, err = ledgerDecision(row); err != nil {
			return nil, err
		}
		list[i].StoredInput, list[i].Position.Change = row.Input, row.ID
	}
	return list, nil
}

// merge returns the newest decisions of both lists, and completes their positions.
func merge(finishes, changes []endpoints.LedgerDecision, position endpoints.LedgerPosition, limit int) []endpoints.LedgerDecision {
	list := make([]endpoints.LedgerDecision, 0, min(limit, len(finishes)+len(changes)))
	for len(list) < limit && len(finishes)+len(changes) > 0 {
		if len(changes) == 0 || len(finishes) > 0 && finishes[0].At.After(changes[0].At) {
			position.Run = finishes[0].RunID
			list, finishes = append(list, finishes[0]), finishes[1:]
		} else {
			position.Change = changes[0].Position.Change
			list, changes = append(list, changes[0]), changes[1:]
		}
		list[len(list)-1].Position = position
	}
	return list
}
