package items

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
	"rubato/internal/template"
)

// Executions starts and finishes runs. It implements dispatch.Executions.
type Executions struct {
	db *endpointstore.States
}

var _ dispatch.Executions = (*Executions)(nil)

// NewExecutions returns the store of executions.
func NewExecutions(db *endpointstore.States) *Executions { return &Executions{db: db} }

// Targets implements dispatch.Executions.
func (s *Executions) Targets(ctx context.Context, list []claims.Claim) (map[[16]byte]*request.Target, error) {
	versions := make(map[[16]byte]int64, len(list))
	for _, c := range list {
		versions[c.Endpoint()] = max(versions[c.Endpoint()], c.Version)
	}
	loaded, err := s.db.Load(ctx, s.db.Hot, versions)
	if err != nil {
		return nil, pg.Translate(err)
	}
	s.db.Claimed(loaded)
	targets := make(map[[16]byte]*request.Target, len(loaded))
	if err := s.syncVersions(ctx, list, loaded); err != nil {
		return nil, err
	}
	for _, c := range list {
		if config := loaded[c.Endpoint()]; config != nil && config.Fault == nil {
			targets[c.EndpointID] = &config.Target
		}
	}
	for id, c := range loaded {
		if c.Fault == nil {
			continue
		}
		if err := s.quarantine(ctx, id); err != nil {
			return targets, err
		}
	}
	if err := s.oneOffTargets(ctx, list, targets); err != nil {
		return targets, err
	}
	if err := s.attachNoise(ctx, list, targets); err != nil {
		return targets, err
	}
	return targets, s.attachValidators(ctx, targets)
}

// quarantine pauses an endpoint with an unusable stored configuration.
func (s *Executions) quarantine(ctx context.Context, id [16]byte) error {
	return s.mend(ctx, id, func(tx pgx.Tx, m lockedEndpoint) error {
		if m.fault == nil { // It was repaired meanwhile.
			return nil
		}
		if m.endpoint.Call != nil {
			return s.dropCall(ctx, tx, m)
		}
		return s.db.Quarantine(ctx, tx, m.endpoint, m.now, m.fault)
	})
}

// lockedEndpoint is an endpoint with a locked row, and the database's time.
type lockedEndpoint struct {
	endpoint *endpoints.Endpoint
	// fault is why its configuration is unusable, or nil.
	fault error
	now   time.Time
}

// mend locks an endpoint and calls act to change it. It does nothing if the endpoint is archived or
// has a live run, because the finish of that run makes the decision.
func (s *Executions) mend(ctx context.Context, id [16]byte, act func(pgx.Tx, lockedEndpoint) error) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.ScheduleLock(ctx, tx, [][16]byte{id}); err != nil {
			return fmt.Errorf("locking a schedule: %w", err)
		}
		found, faults, err := s.db.States(ctx, tx, [][16]byte{id})
		if err != nil {
			return err
		}
		m := lockedEndpoint{endpoint: found[id], fault: faults[id]}
		if m.endpoint == nil || m.endpoint.State.Running != nil {
			return nil
		}
		if m.now, err = s.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		return act(tx, m)
	})
}

// Start implements dispatch.Executions. Its statements are one pipeline and one transaction. A
// claim with a stale token is refused, so its run is missing from the result.
func (s *Executions) Start(ctx context.Context, r dispatch.Starting) ([]dispatch.Started, error) {
	inLockOrder := func(a, b dispatch.Start) int { return byEndpoint(a.Claim, b.Claim) }
	list := slices.SortedFunc(slices.Values(r.List), inLockOrder)
	params := dbsqlc.ScheduleStartParams{
		WorkerID:  r.Worker,
		LockTtlMs: r.LockTTL.Milliseconds(),
		Now:       s.db.Now(),
		Until:     pg.Optional(r.Until),
	}
	grow(len(list), &params)
	for _, l := range list {
		params.EndpointIds = append(params.EndpointIds, l.Claim.EndpointID)
		params.CTIDs = append(params.CTIDs, tid(l.Claim.CTID))
		params.Tokens = append(params.Tokens, l.Claim.Token)
		params.RunIds = append(params.RunIds, l.RunID)
		params.ExecutionMs = append(params.ExecutionMs, l.Execution.Milliseconds())
	}
	var rows []*dbsqlc.Schedule
	start := func(q dbsqlc.DBTX) (err error) {
		rows, err = s.db.Q.ScheduleStart(ctx, q, params)
		return err
	}
	versions, readVersions := s.secretsVersions(ctx, list)
	lasts, readLasts := s.lastRuns(ctx, list)
	hints, readHints := s.hintsOf(ctx, list)
	if err := pg.PipelineOn(ctx, s.db.Hot, slices.Concat([]pg.Statement{start}, readVersions, readLasts, readHints)...); err != nil {
		return nil, fmt.Errorf("starting %d runs: %w", len(list), pg.Translate(err))
	}
	started := make([]dispatch.Started, 0, len(rows))
	for _, row := range rows {
		started = append(started, dispatch.Started{
			EndpointID:     row.EndpointID,
			TenantID:       *row.TenantID,
			RunID:          *row.RunID,
			StartedAt:      *row.StartedAt,
			LockedUntil:    row.DueAt,
			SecretsVersion: versions[*row.TenantID],
			Last:           lasts[row.EndpointID],
			Basis:          basis{row, hints[row.EndpointID]},
		})
	}
	return started, nil
}

// secretsVersions returns the statements that read the secrets versions of runs that use secrets,
// and the map that they fill. Both are nil if no run uses secrets.
func (s *Executions) secretsVersions(ctx context.Context, list []dispatch.Start) (map[[16]byte]int64, []pg.Statement) {
	var tenants [][16]byte
	for _, l := range list {
		if l.Secrets && !slices.Contains(tenants, l.TenantID) {
			tenants = append(tenants, l.TenantID)
		}
	}
	if len(tenants) == 0 {
		return nil, nil
	}
	versions := make(map[[16]byte]int64, len(tenants))
	share := func(q dbsqlc.DBTX) error { return s.db.Q.SecretsAdvisoryLockShared(ctx, q, tenants) }
	read := func(q dbsqlc.DBTX) error {
		rows, err := s.db.Q.SecretsVersions(ctx, q, tenants)
		for _, row := range rows {
			versions[row.ID] = row.SecretsVersion
		}
		return err
	}
	return versions, []pg.Statement{share, read}
}

// lastRuns returns the statement that reads the previous runs for templates that use them, and the
// map that it fills. Both are nil if no template does.
func (s *Executions) lastRuns(ctx context.Context, list []dispatch.Start) (map[[16]byte]template.Last, []pg.Statement) {
	var ids [][16]byte
	for _, l := range list {
		if l.Last {
			ids = append(ids, l.Claim.EndpointID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	lasts := make(map[[16]byte]template.Last, len(ids))
	return lasts, []pg.Statement{func(q dbsqlc.DBTX) error {
		rows, err := s.db.Q.RunLast(ctx, q, ids)
		for _, row := range rows {
			lasts[row.EndpointID] = template.Last{
				Status:     row.Status,
				StatusCode: int(row.StatusCode),
				FinishedAt: pg.OrZero(row.FinishedAt),
			}
		}
		return err
	}}
}

// hintsOf returns the statement that reads the hints of endpoints that may have any, and the map
// that it fills. It must run after the start, because the row locks of the start block concurrent
// changes of hints.
func (s *Executions) hintsOf(ctx context.Context, list []dispatch.Start) (map[[16]byte][]*dbsqlc.Hint, []pg.Statement) {
	var ids [][16]byte
	for _, l := range list {
		if l.Claim.Hinted {
			ids = append(ids, l.Claim.EndpointID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	hints := make(map[[16]byte][]*dbsqlc.Hint, len(ids))
	return hints, []pg.Statement{func(q dbsqlc.DBTX) error {
		rows, err := s.db.Q.HintGetMany(ctx, q, ids)
		for _, row := range rows {
			hints[row.EndpointID] = append(hints[row.EndpointID], row)
		}
		return err
	}}
}

// ProbeSpace implements dispatch.Executions. It detects a full disk by spilling a temporary file. A
// heartbeat cannot detect it, because it updates its row in place and needs no new page.
func (s *Executions) ProbeSpace(ctx context.Context) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		if err := s.db.Q.WorkMemLimit(ctx, tx); err != nil {
			return err
		}
		if err := s.db.Q.TempTablespaceDefault(ctx, tx); err != nil {
			return err
		}
		_, err := s.db.Q.DiskSpaceProbe(ctx, tx)
		return err
	})
}

// Beat implements dispatch.Executions.
func (s *Executions) Beat(ctx context.Context, p dispatch.Presence) (drain bool, err error) {
	drain, err = s.db.Q.WorkerHeartbeat(ctx, s.db.Vital, dbsqlc.WorkerHeartbeatParams{
		ID:           p.ID,
		Name:         p.Name,
		Version:      p.Version,
		State:        string(p.State),
		Now:          s.db.Now(),
		Slots:        int32(p.Slots),
		Busy:         int32(p.Busy),
		MaxSlots:     int32(p.MaxSlots),
		Queued:       int32(p.Queued),
		Tags:         list(p.Tags),
		Capabilities: list(p.Capabilities),
		Exclusive:    p.Exclusive,
	})
	return drain, pg.Translate(err)
}

// list returns an empty list in place of nil, which would be null.
func list(tags []string) []string { return append([]string{}, tags...) }

// Fleet implements dispatch.WorkerStore.
func (s *Executions) Fleet(ctx context.Context, worker [16]byte) (fleet dispatch.Fleet, err error) {
	err = pg.PipelineOn(ctx, s.db.Vital,
		func(q dbsqlc.DBTX) error {
			row, err := s.db.Q.WorkerFleet(ctx, q, dbsqlc.WorkerFleetParams{
				WorkerID: worker,
				Now:      s.db.Now(),
			})
			if err == nil {
				fleet.Workers, fleet.Index = int(row.Workers), int(row.Index)
				fleet.MaxSlots, fleet.Queued = int(row.MaxSlots), int(row.Queued)
			}
			return err
		},
		func(q dbsqlc.DBTX) error {
			rows, err := s.db.Q.TagSetListServed(ctx, q, dbsqlc.TagSetListServedParams{
				WorkerID: worker,
				Now:      s.db.Now(),
			})
			for _, row := range rows {
				fleet.TagSets.List = append(fleet.TagSets.List, claims.TagSet{ID: row.ID, Yields: row.Yields})
			}
			return err
		})
	return fleet, pg.Translate(err)
}

// syncVersions corrects the schedules of claims without a configuration whose versions differ.
// These claims are void afterwards.
func (s *Executions) syncVersions(ctx context.Context, list []claims.Claim, loaded map[[16]byte]*endpointstore.Config) error {
	var missing [][16]byte
	for _, c := range list {
		if loaded[c.Endpoint()] == nil {
			missing = append(missing, c.EndpointID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.ScheduleLock(ctx, tx, missing); err != nil {
			return fmt.Errorf("locking %d schedules: %w", len(missing), err)
		}
		mended, err := s.db.Q.ScheduleSyncVersion(ctx, tx, missing)
		if err != nil {
			return fmt.Errorf("bringing %d schedules to the version of their configuration: %w", len(missing), err)
		}
		if mended == 0 { // They were edited or archived meanwhile.
			return nil
		}
		return s.db.Q.ScheduleNotify(ctx, tx, 0)
	})
}

// Cancels implements dispatch.Executions.
func (s *Executions) Cancels(ctx context.Context, worker [16]byte) ([]dispatch.Cancel, error) {
	rows, err := s.db.Q.RunListCanceled(ctx, s.db.Pool, worker)
	if err != nil {
		return nil, fmt.Errorf("looking for runs to cancel: %w", pg.Translate(err))
	}
	list := make([]dispatch.Cancel, len(rows))
	for i, row := range rows {
		list[i] = dispatch.Cancel{
			RunID:  row.RunID,
			Token:  row.ClaimToken,
			Author: row.Author,
			Reason: row.Reason,
		}
	}
	return list, nil
}
