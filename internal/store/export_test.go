package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/internal/dispatch"
	"rubato/internal/planner"
	"rubato/internal/schedule"
	"rubato/internal/store/dbsqlc"
)

// SetNow makes every statement that depends on time take at for the database's time. The zero instant gives the database its own
// clock back. It must not be called while statements run.
func (db *DB) SetNow(at time.Time) {
	db.now = func() *time.Time { return optional(at) }
}

// Translate is translate.
func Translate(err error) error { return translate(err) }

// FinishByBasis finishes runs by what their starts read, and reports whether that still holds; where it does not, nothing is written.
func (s *Executions) FinishByBasis(ctx context.Context, f dispatch.Finish) (done dispatch.Finished, holds bool, err error) {
	sorted, known := inOrder(f)
	if !known {
		return done, false, nil
	}
	err = s.db.hotTx(ctx, func(tx pgx.Tx) (err error) {
		b := newBatch(s.db, f.Runs)
		defer b.release()
		b.worker, b.keep, b.lockTTL = f.Worker, f.Keep, f.LockTTL
		done, err = s.finishRead(ctx, tx, b, sorted)
		return err
	})
	if errors.Is(err, errStale) {
		return dispatch.Finished{}, false, nil
	}
	return done, true, err
}

// Statement is statement.
type Statement = statement

// Pipeline is pipeline through the pool.
func (db *DB) Pipeline(ctx context.Context, statements ...Statement) error {
	return pipelineOn(ctx, db.hot, statements...)
}

// Explain returns the plan that a statement gets on the connections of the hot path: the one that is made once, whatever the values.
func (db *DB) Explain(ctx context.Context, s Statement) (plan string, err error) {
	err = pgx.BeginFunc(ctx, db.hot, func(tx pgx.Tx) error {
		plan, err = explainKept(ctx, tx, s)
		return err
	})
	return plan, err
}

// ExplainChange returns the plan that a statement gets in a change of one endpoint.
func (db *DB) ExplainChange(ctx context.Context, s Statement) (plan string, err error) {
	err = db.txAfter(ctx, nil, func(tx opened) error {
		plan, err = explainKept(ctx, tx, s)
		return err
	})
	return plan, err
}

func explainKept(ctx context.Context, tx dbsqlc.DBTX, s Statement) (string, error) {
	a := asked(s)
	if _, err := tx.Exec(ctx, "PREPARE explained AS "+a.SQL); err != nil {
		return "", err
	}
	defer func() { _, _ = tx.Exec(ctx, "DEALLOCATE explained") }()
	values := strings.TrimSuffix(strings.Repeat("NULL, ", len(a.Args)), ", ")
	rows, err := tx.Query(ctx, "EXPLAIN EXECUTE explained("+values+")")
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// ExplainPlainly returns the plan that a statement gets on the others.
func (db *DB) ExplainPlainly(ctx context.Context, s Statement) (string, error) {
	return explain(ctx, db.pool, s)
}

func explain(ctx context.Context, pool *pgxpool.Pool, s Statement) (string, error) {
	a := asked(s)
	rows, err := pool.Query(ctx, "EXPLAIN "+a.SQL, a.Args...)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// SetStandstill sets how long a sweeper may stand still.
func (s *Sweeps) SetStandstill(d time.Duration) { s.standstill = d }

// Asked is SQL with its arguments.
type Asked struct {
	SQL  string
	Args []any
}

// asked returns what a statement would send.
func asked(s statement) Asked {
	r := &recorder{}
	_ = s(r) // It always fails: nothing is sent.
	return Asked{SQL: r.sql, Args: r.args}
}

// ListStatement returns what a list of endpoints asks the database.
func ListStatement(p dbsqlc.EndpointListParams) Asked {
	e := NewEndpoints(&DB{q: dbsqlc.New()})
	return asked(func(q dbsqlc.DBTX) error { _, err := e.rows(context.Background(), q, p); return err })
}

// RunsStatement returns what a list of runs asks the database.
func RunsStatement(p dbsqlc.RunListParams) Asked {
	return asked(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunList(context.Background(), q, p); return err })
}

// HealthStatement returns what the health of an endpoint asks the database.
func HealthStatement(p dbsqlc.EndpointHealthParams) Asked {
	return asked(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().EndpointHealth(context.Background(), q, p)
		return err
	})
}

// OverviewStatement returns what an overview asks the database of the newest runs.
func OverviewStatement(p dbsqlc.TenantRunsParams) Asked {
	return asked(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().TenantRuns(context.Background(), q, p); return err })
}

// SparksStatement returns what the pictures in a list of endpoints ask the database.
func SparksStatement(p dbsqlc.ConsoleSparksParams) Asked {
	return asked(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ConsoleSparks(context.Background(), q, p)
		return err
	})
}

// IncidentsStatement returns what the incidents of the last day ask the database.
func IncidentsStatement(tenant [16]byte, now time.Time) Asked {
	return asked(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ConsoleIncidents(context.Background(), q, incidentParams(tenant, now.Add(-consoleProofTime)))
		return err
	})
}

// NewsStatement returns what a look at the feed asks the database first.
func NewsStatement(p dbsqlc.RunNewsListParams) Asked {
	return asked(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunNewsList(context.Background(), q, p); return err })
}

// FindStatement returns what a look at the feed asks the database about the runs that it found.
func FindStatement(p dbsqlc.RunFindParams) Asked {
	return asked(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunFind(context.Background(), q, p); return err })
}

// PlannerStatement returns what a statement of the planner asks the database.
func PlannerStatement(of func(q *dbsqlc.Queries, db dbsqlc.DBTX) error) Asked {
	return asked(func(db dbsqlc.DBTX) error { return of(dbsqlc.New(), db) })
}

// SuggestionsStatement returns what a list of suggestions asks the database.
func SuggestionsStatement(f planner.SuggestionFilter, now time.Time) Asked {
	return PlannerStatement(func(q *dbsqlc.Queries, db dbsqlc.DBTX) error {
		_, err := q.PlannerSuggestionList(context.Background(), db, suggestionPage(f, now))
		return err
	})
}

// OpenImpatient is Open for a main pool of one size, whose transactions wait as given for a connection, and its statements for a lock.
func OpenImpatient(ctx context.Context, url string, conns int32, conn, lock time.Duration) (*DB, error) {
	return Open(ctx, Config{URL: url, MaxConns: conns, connWait: conn, lockWait: lock})
}

// OpenHurried is Open for a main pool of one size, whose transactions take so long at most.
func OpenHurried(ctx context.Context, url string, conns int32, tx time.Duration) (*DB, error) {
	return Open(ctx, Config{URL: url, MaxConns: conns, txWait: tx})
}

// Wake is wake.
func (db *DB) Wake(ctx context.Context, due, now time.Time) { db.wake(ctx, due, now) }

// LockTimeouts returns how long statements wait for a lock on the main connections and on those of the hot path.
func (db *DB) LockTimeouts(ctx context.Context) (asks, works string, err error) {
	if err := db.pool.QueryRow(ctx, "SHOW lock_timeout").Scan(&asks); err != nil {
		return "", "", err
	}
	return asks, works, db.hot.QueryRow(ctx, "SHOW lock_timeout").Scan(&works)
}

// Occupy takes some of the main connections until release.
func (db *DB) Occupy(ctx context.Context, conns int) (release func(), err error) {
	return occupy(ctx, db.pool, conns)
}

// OccupyHot takes every connection of the hot path until release.
func (db *DB) OccupyHot(ctx context.Context) (release func(), err error) {
	return occupy(ctx, db.hot, hotConns)
}

func occupy(ctx context.Context, pool *pgxpool.Pool, conns int) (release func(), err error) {
	var taken []*pgxpool.Conn
	release = func() {
		for _, c := range taken {
			c.Release()
		}
	}
	for range conns {
		c, err := pool.Acquire(ctx)
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, c)
	}
	return release, nil
}

// AuditStatement returns what a list of changes asks the database.
func AuditStatement(p dbsqlc.AuditListParams) Asked {
	return asked(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().AuditList(context.Background(), q, p); return err })
}

// NoticesStatement returns what a list of notices asks the database.
func NoticesStatement(p dbsqlc.NoticeListParams) Asked {
	return asked(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().NoticeList(context.Background(), q, p); return err })
}

// PoisonCron makes every decision about an endpoint panic, whose configuration was read before.
func (db *DB) PoisonCron(id [16]byte) {
	db.configs.mu.Lock()
	defer db.configs.mu.Unlock()
	known := db.configs.known[id]
	poisoned := *known.Value.(*config) //nolint:forcetypeassert // Nothing else is put in.
	poisoned.cron, poisoned.spec.BaselineInterval, poisoned.spec.BaselineCron = new(schedule.Cron), 0, "* * * * *"
	known.Value = &poisoned
}

// BoundConnect bounds one attempt to connect, as every pool does.
func BoundConnect(cc *pgx.ConnConfig) { boundConnect(cc) }
