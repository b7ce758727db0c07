package chains

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/calls"
	"rubato/internal/chains"
	"rubato/internal/endpoints"
	"rubato/internal/failpoint"
	"rubato/internal/loop"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

const (
	// pollInterval bounds the time from the end of a step to the start of the next one if the
	// notification of the end is lost.
	pollInterval = time.Second
	// lookAgain is how soon a run is advanced again that waits for something besides its steps: a
	// full queue, or the end of a run that is to be canceled.
	lookAgain = time.Second
	// idle is when a run without a deadline is looked at although no step ended, in case that its
	// item was lost.
	idle = time.Minute
)

// Config holds what an advancer needs.
type Config struct {
	DB *pg.DB
	// Endpoints is the store that Service works on.
	Endpoints *endpointstore.Store
	// Service queues the one-off runs.
	Service *endpoints.Service
	// Calls checks the calls of steps without an endpoint.
	Calls   *calls.Service
	Cancels runs.Canceler
	// Loops contains panics, so that one run does not stop the others.
	Loops  *loop.Runner
	Logger *slog.Logger
	// Registerer receives the metrics; nil: none are kept.
	Registerer prometheus.Registerer
}

// Advancer advances the runs of chains. Any number of workers may advance at the same time: each
// run is advanced by one of them, in one transaction per step of the way.
type Advancer struct {
	db        *pg.DB
	endpoints *endpointstore.Store
	service   *endpoints.Service
	calls     *calls.Service
	cancels   runs.Canceler
	loops     *loop.Runner
	logger    *slog.Logger
	metrics   *metrics
	// wake holds a notification that has not been looked at.
	wake chan struct{}
}

// NewAdvancer returns an advancer.
func NewAdvancer(c Config) *Advancer {
	return &Advancer{
		db:        c.DB,
		endpoints: c.Endpoints,
		service:   c.Service,
		calls:     c.Calls,
		cancels:   c.Cancels,
		loops:     c.Loops,
		logger:    c.Logger,
		metrics:   newMetrics(c.Registerer),
		wake:      make(chan struct{}, 1),
	}
}

// ChainsWoken lets Run look at once. It does not block.
func (a *Advancer) ChainsWoken() {
	select {
	case a.wake <- struct{}{}:
	default: // It looks already.
	}
}

// Run advances runs and starts chains until ctx ends. An error of one of them stops the other only
// until the next look, because it means that the database cannot be reached.
func (a *Advancer) Run(ctx context.Context) {
	loop.PollOrWake(ctx, pollInterval, a.wake, func(ctx context.Context) error {
		for more := true; more && ctx.Err() == nil; {
			advanced, err := a.Advance(ctx)
			started, fault := a.StartNext(ctx)
			if err := errors.Join(err, fault); err != nil {
				return err
			}
			more = advanced || started
		}
		return nil
	}, func(err error) { a.logger.Error("chains could not be advanced", "error", err) })
}

const (
	// maxDue bounds the rows that one look takes before it asks for the oldest of each tenant.
	maxDue = 256
	// perTenant is how many runs or starts of a tenant a look returns. One of them is taken; the
	// others are for those that another worker has locked.
	perTenant = 4
)

// Advance advances one due run of each tenant, and reports whether there was one. A run is due
// after the end of a step, and at the instant of its next look. Tenants take turns, so that the
// long advances of one delay each run of another by one advance. If an advance fails, its run is
// put behind the others and tried again after a backoff.
func (a *Advancer) Advance(ctx context.Context) (found bool, err error) {
	due, err := a.db.Q.ChainRunsDue(ctx, a.db.Pool, dbsqlc.ChainRunsDueParams{
		Now:       a.db.Now(),
		MaxRows:   maxDue,
		PerTenant: perTenant,
	})
	if err != nil {
		return false, fmt.Errorf("looking for runs of chains to advance: %w", pg.Translate(err))
	}
	return oneOfEachTenant(due, func(row *dbsqlc.ChainRunsDueRow) (tenant dbsqlc.UUID, take func() (bool, error)) {
		return row.TenantID, func() (bool, error) { return a.advanceOrPutBack(ctx, row.ID) }
	})
}

// oneOfEachTenant takes one row of each tenant and reports whether there was one. The rows are
// sorted by tenant. If another worker has a row, so that take returns false, the next one of the
// tenant is tried. The first error ends it.
func oneOfEachTenant[T any](rows []T, of func(row T) (tenant dbsqlc.UUID, take func() (bool, error))) (found bool, err error) {
	var done dbsqlc.UUID
	for _, row := range rows {
		tenant, take := of(row)
		if tenant == done {
			continue
		}
		taken, err := take()
		if err != nil {
			return found, err
		}
		if taken {
			found, done = true, tenant
		}
	}
	return found, nil
}

// advanceOrPutBack advances a run, or puts it behind the others if that fails or panics. taken is
// false if another worker has it. The error is that of the putting back.
func (a *Advancer) advanceOrPutBack(ctx context.Context, id dbsqlc.UUID) (taken bool, err error) {
	fault := a.loops.Contain(loop.Chains, func() { taken, err = a.advanceRun(ctx, id) })
	if err = cmp.Or(fault, err); err == nil || ctx.Err() != nil {
		return taken, err
	}
	a.metrics.failures.WithLabelValues(failedAdvance).Inc()
	back := a.db.Q.ChainRunPutBack(ctx, a.db.Pool, dbsqlc.ChainRunPutBackParams{ID: id, Now: a.db.Now()})
	if back != nil {
		return false, errors.Join(err, fmt.Errorf("putting chain run %s back: %w", chains.RunID(id), pg.Translate(back)))
	}
	a.logger.Error("a run of a chain could not be advanced, and is tried again later", "chain_run", chains.RunID(id).String(), "error", err)
	return true, nil
}

// advanceRun advances a run. taken is false if another worker has it.
func (a *Advancer) advanceRun(ctx context.Context, id dbsqlc.UUID) (taken bool, err error) {
	var t *turn
	days := func() []time.Time { return t.days() }
	err = a.db.WithPartitions(ctx, days, func() error {
		return a.db.Tx(ctx, func(tx pgx.Tx) error {
			rows, err := a.db.Q.ChainRunClaim(ctx, tx, dbsqlc.ChainRunClaimParams{ID: id, Now: a.db.Now()})
			if err != nil || len(rows) == 0 {
				t = nil
				return err
			}
			t = &turn{Advancer: a, tx: tx, row: rows[0]}
			return t.advance(ctx)
		})
	})
	if err != nil {
		return false, fmt.Errorf("advancing a run of a chain: %w", pg.Translate(err))
	}
	if t == nil {
		return false, nil
	}
	failpoint.Hit(failpoint.Advanced)
	t.after(ctx)
	return true, nil
}
