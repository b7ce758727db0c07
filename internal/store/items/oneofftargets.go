package items

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// oneOffTargets replaces the targets of claimed one-off runs by their own requests. A claim without
// an item has no target, because its token is void. A claim with an unusable item has none either;
// mendOneOff handles it.
func (s *Executions) oneOffTargets(ctx context.Context, list []claims.Claim, targets map[[16]byte]*request.Target) error {
	var p dbsqlc.OneOffGetRequestsParams
	for _, c := range list {
		if c.Source == string(governor.SourceManual) && targets[c.EndpointID] != nil {
			p.EndpointIds, p.Slots = append(p.EndpointIds, c.EndpointID), append(p.Slots, c.Slot)
		}
	}
	if len(p.EndpointIds) == 0 {
		return nil
	}
	rows, err := s.db.Q.OneOffGetRequests(ctx, s.db.Hot, p)
	if err != nil {
		return fmt.Errorf("reading the requests of %d one-off runs: %w", len(p.EndpointIds), pg.Translate(err))
	}
	configured := make(map[[16]byte]*request.Target, len(p.EndpointIds))
	for _, id := range p.EndpointIds {
		configured[id] = targets[id]
		delete(targets, id)
	}
	faults := map[[16]byte]error{}
	for _, row := range rows {
		target, err := oneOffTarget(configured[row.EndpointID], row)
		if err != nil {
			faults[row.EndpointID] = err
			continue
		}
		targets[row.EndpointID] = target
	}
	for _, id := range p.EndpointIds {
		if targets[id] == nil {
			if err := s.mendOneOff(ctx, id, faults[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// mendOneOff replans an endpoint whose one-off item is missing, and quarantines an endpoint whose
// item is unusable, because its claim would return forever otherwise. A revoked claim is left
// unchanged.
func (s *Executions) mendOneOff(ctx context.Context, id [16]byte, fault error) error {
	return s.mend(ctx, id, func(tx pgx.Tx, m lockedEndpoint) error {
		e := m.endpoint
		if e.State.Due.Source != governor.SourceManual {
			return nil
		}
		if fault != nil {
			return s.db.Quarantine(ctx, tx, e, m.now, fault)
		}
		if next := e.State.OneOffs.Next; next != nil && next.Slot.Equal(e.State.Due.Slot) {
			return nil
		}
		planned, err := e.Replan(m.now)
		if err != nil {
			return fmt.Errorf("planning endpoint %s without its one-off item: %w", e.ID, err)
		}
		if err := s.db.Replan(ctx, tx, e); err != nil {
			return err
		}
		return s.db.Decided(ctx, tx, e, planned)
	})
}

// oneOffTarget returns the target of one one-off run.
func oneOffTarget(configured *request.Target, row *dbsqlc.OneOffGetRequestsRow) (*request.Target, error) {
	target := *configured
	var override endpoints.Override
	if row.Request != nil {
		if err := json.Unmarshal(row.Request, &override); err != nil {
			return nil, fmt.Errorf("decoding the request of a one-off run of endpoint %s: %w", endpoints.ID(row.EndpointID), err)
		}
		spec := override.Apply(*configured.Spec)
		var err error
		if target, err = request.NewTarget(configured.TenantID, &spec); err != nil {
			return nil, fmt.Errorf("preparing the request of a one-off run of endpoint %s: %w", endpoints.ID(row.EndpointID), err)
		}
	}
	target.Form, target.Deadline, target.Force = configured.Form, pg.OrZero(row.DeadlineAt), row.Force
	target.SentKey, target.DueFor = override.SentKey, override.DueFor
	return &target, nil
}
