// Package endpoints stores endpoints: configuration, schedule, hints and one-off items. [Store]
// serves users. [States] reads and replans endpoints inside the transactions of other stores.
package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/spending"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
	"rubato/internal/tempo"
)

// States reads and writes the states of endpoints: configurations, schedules, hints and one-off
// items. It caches the configurations in use, so the stores of one process share one.
type States struct {
	*pg.DB

	// Rules is the cache of notice rules, which Refresh of the store of notices replaces. Finishes
	// load it without a lock. Nil means no rules.
	Rules atomic.Pointer[notices.RuleCache]
	// Budgets are the shared budgets, which Refresh of the store of budgets replaces. Nil means
	// none.
	Budgets atomic.Pointer[spending.Book]
	// Spent counts the runs of shared budgets until the store of budgets takes them.
	Spent spending.Counter
	// Keyring seals the requests of dead letters. It is set before the first finish; nil: they are
	// not sealed.
	Keyring *secrets.Keyring

	configs *configs
}

// NewStates returns the states of endpoints. slots is the maximum number of concurrent runs of the
// worker. It sizes the cache of configurations from 2048 upwards.
func NewStates(db *pg.DB, slots int) *States {
	return &States{DB: db, configs: newConfigs(max(slots, defaultCacheSlots))}
}

// States reads endpoints: configuration, schedule with the run in flight, and hints. A caller that
// replans them has locked their rows by an earlier statement. An archived endpoint without a
// schedule is left out. An endpoint with an unusable stored configuration carries the fault.
func (db *States) States(ctx context.Context, tx pgx.Tx, ids [][16]byte) (map[[16]byte]*endpoints.Endpoint, map[[16]byte]error, error) {
	var read Stored
	err := pg.Pipeline(ctx, tx,
		func(q dbsqlc.DBTX) (err error) {
			read.Schedules, err = db.Q.ScheduleGetMany(ctx, q, ids)
			return err
		},
		func(q dbsqlc.DBTX) (err error) {
			read.Hints, err = db.Q.HintGetMany(ctx, q, ids)
			return err
		},
		db.OneOffs(ctx, &read, ids))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the schedules and hints of %d endpoints: %w", len(ids), err)
	}
	return db.Assemble(ctx, tx, read, nil)
}

// shared returns the shared budget of an endpoint; nil: none.
func (db *States) shared(e *endpoints.Endpoint) *endpoints.SharedBudget {
	book := db.Budgets.Load()
	if e.Spec.Budget != "" || !book.About(e.TenantID) {
		return nil
	}
	return endpoints.NewSharedBudget(book.For(e.TenantID, e.Spec.Host(), e.Spec.Labels))
}

// Stored holds the rows of endpoints without their configurations.
type Stored struct {
	Schedules []*dbsqlc.Schedule
	Hints     []*dbsqlc.Hint
	oneOffs   []*dbsqlc.OneOffGetManyRow
}

// Assemble joins schedules and hints with their configurations. It uses the memory of room if that
// is large enough.
func (db *States) Assemble(
	ctx context.Context, tx dbsqlc.DBTX, read Stored, room []endpoints.Endpoint,
) (map[[16]byte]*endpoints.Endpoint, map[[16]byte]error, error) {
	versions := make(map[[16]byte]int64, len(read.Schedules))
	for _, row := range read.Schedules {
		id := configID(row)
		versions[id] = max(versions[id], row.Version)
	}
	loaded, err := db.Load(ctx, tx, versions)
	if err != nil {
		return nil, nil, err
	}
	if err := db.loadCurrent(ctx, tx, versions, loaded); err != nil {
		return nil, nil, err
	}
	found, faults := make(map[[16]byte]*endpoints.Endpoint, len(read.Schedules)), map[[16]byte]error{}
	list := slices.Grow(room[:0], len(read.Schedules)) // It must not grow again, because found has pointers into it.
	for _, row := range read.Schedules {
		c := loaded[configID(row)]
		if c == nil {
			return nil, nil, fmt.Errorf("endpoint %s has a schedule and no configuration", endpoints.ID(row.EndpointID))
		}
		if c.Fault != nil {
			faults[row.EndpointID] = c.Fault
		}
		list = append(list, c.endpoint(stateOf(row)))
		e := &list[len(list)-1]
		if row.OwnerID != nil {
			e.ID, e.Call = row.EndpointID, &endpoints.Call{Owner: *row.OwnerID}
		}
		if e.Call == nil {
			e.Shared = db.shared(e)
		}
		found[row.EndpointID] = e
	}
	for _, row := range read.Hints {
		if e := found[row.EndpointID]; e != nil {
			attachHint(&e.State, row)
		}
	}
	for _, row := range read.oneOffs {
		if e := found[row.EndpointID]; e != nil {
			attachOneOff(&e.State.OneOffs, row)
		}
	}
	return found, faults, nil
}

// configID returns the key of the configuration of a schedule: an endpoint or a call.
func configID(row *dbsqlc.Schedule) [16]byte { return cmp.Or(pg.OrZero(row.OwnerID), row.EndpointID) }

func attachHint(s *endpoints.State, row *dbsqlc.Hint) {
	h := &endpoints.Hint{
		At:        pg.OrZero(row.RunAt),
		ExpiresAt: row.ExpiresAt,
		Reason:    row.Reason,
		Author:    row.Author,
		CreatedAt: row.CreatedAt,
	}
	if row.Kind == history.HintOneShot {
		s.OneShotHint = h
		return
	}
	h.OutageSince = pg.OrZero(row.OutageSince)
	h.Interval = pg.Millis(*row.IntervalMs) // A check constraint requires it for interval hints.
	s.IntervalHint = h
}

func stateOf(row *dbsqlc.Schedule) endpoints.State {
	s := endpoints.State{
		Token: row.ClaimToken,
		Due: endpoints.Due{
			At:           row.PlannedAt,
			Slot:         row.Slot,
			Attempt:      int(row.Attempt),
			InfraAttempt: int(row.InfraAttempt),
			Source:       governor.Source(row.Source),
		},
		Anchor:         pg.OrZero(row.Anchor),
		LastSlot:       pg.OrZero(row.LastSlot),
		FailureCount:   int(row.FailureCount),
		RunsDone:       int(row.RunsDone),
		EndedAt:        pg.OrZero(row.EndedAt),
		PausedUntil:    pg.OrZero(row.PausedUntil),
		PauseReason:    pg.OrZero(row.PauseReason),
		RetryAfter:     pg.OrZero(row.RetryAfter),
		TargetNext:     pg.OrZero(row.TargetNext),
		FreshUntil:     pg.OrZero(row.FreshUntil),
		AccountedUntil: pg.OrZero(row.AccountedUntil),
		LastCall:       pg.OrZero(row.LastCallAt),
	}
	// A tempo of another version counts as none, because it is learnt again.
	if t, err := tempo.Decode(row.Tempo); err == nil {
		s.Tempo = &t
	}
	if row.RunID != nil {
		s.Running = &endpoints.Running{
			Slot:         row.Slot,
			Attempt:      int(row.Attempt),
			InfraAttempt: int(row.InfraAttempt),
			StartedAt:    *row.StartedAt,
		}
	}
	if row.LastStatus != nil {
		s.LastRun = &endpoints.LastRun{
			Slot:         pg.OrZero(row.LastRunSlot),
			Attempt:      int(*row.LastAttempt),
			InfraAttempt: int(row.LastInfraAttempt),
			Status:       *row.LastStatus,
			StartedAt:    pg.OrZero(row.LastStartedAt),
			FinishedAt:   pg.OrZero(row.LastFinishedAt),
		}
	}
	return s
}
