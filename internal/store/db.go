// Package store keeps everything in Postgres. It implements the interfaces that the domain packages declare, one type each over a
// shared [DB], and it is the only package that knows SQL, rows and SQLSTATEs.
//
// Every method is one transaction. Statements that change state name the state they expect, and what they changed is checked. Time
// comes from the database.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
)

// Config says which database to use. Zero fields mean their defaults.
type Config struct {
	URL             string
	MaxConns        int32  // default 10: two cores of a database are busy with fewer. Signs of life and sweeps have others of their own
	ApplicationName string // shown in pg_stat_activity; default "rubato"
	Slots           int    // how many runs the worker has in progress at once, at most: beyond 2048, more configurations are kept
	// Tracers makes a span of every statement that is part of a trace, without its parameters; nil: nobody collects traces.
	Tracers trace.TracerProvider
	// Now stands in for the database's clock, for simulations of time; nil, as in every program, means the database's own.
	Now func() time.Time
	// Contain runs a step that decides about one endpoint, and returns its panic as an error. It should
	// count and log it, as [loop.Runner.Contain] does; nil: the panic is returned alone.
	Contain func(step func()) error

	connWait, lockWait, txWait time.Duration // 0, but in tests: the constants of these names
}

const (
	hotConns   = 8 // a claim, two batches of starts and two of finishes at once, and what they look up
	vitalConns = 2 // one for the heartbeats of runs, one for the worker's own
	sweepConns = 2 // one holds the sweeper's lock, the other sweeps

	// loopStatements is how many statements a connection of these three keeps prepared, at most: there are some dozens, and the driver makes room
	// for all that it may keep.
	loopStatements = 128

	closeWait = 3 * time.Second // for connections in use, at the end

	// How long a connection may have been idle before it is asked whether it lives: mainTrusted one of the main pool, on which people
	// wait, and loopTrusted one of these three, whose users try again by themselves. What is looked for every second, or every two, would
	// cost two round trips each time otherwise.
	mainTrusted = 2 * time.Second
	loopTrusted = 5 * time.Second
)

// DB is a set of pools of connections to one database. The small ones connect when they are first used: a program that runs no worker
// never does.
type DB struct {
	pool    *pgxpool.Pool
	hot     *pgxpool.Pool // for what a worker does for every run
	vital   *pgxpool.Pool // for signs of life alone, which must not wait behind anything
	sweeps  *pgxpool.Pool // for the sweeper alone
	q       *dbsqlc.Queries
	configs *configs
	book    atomic.Pointer[notices.RuleCache] // what runs may mean for notices, as [Notices.Refresh] read it; nil: nothing
	waker   waker
	waits   time.Duration     // for a connection
	limit   time.Duration     // of a transaction
	now     func() *time.Time // nil in its answer means the database's clock
	contain func(step func()) error
}

// Open prepares a pool. It connects when the first statement needs it, so it succeeds while the database is away; the error is
// about the URL alone.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", redactURL(err))
	}
	pc.MaxConns = cmp.Or(max(cfg.MaxConns, 0), 10)
	params := pc.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(cfg.ApplicationName, "rubato")
	params["timezone"] = "UTC"
	params["default_transaction_isolation"] = "read committed" // What is read after waiting for a lock is what its holder left.
	// Every statement is to find its rows by an index. The planner's statistics are always behind how much is claimed and live, so on a
	// young table it would choose to hash or read all of it, at times a hundred times slower (decision 10). Each is planned for the values
	// at hand; only those of the hot pool keep their plans: see planByKey.
	params["enable_hashjoin"] = "off"
	params["enable_mergejoin"] = "off"
	params["enable_seqscan"] = "off"
	params["plan_cache_mode"] = "force_custom_plan"
	params["jit"] = "off"                                   // Statements here take milliseconds; compiling one takes a hundred.
	params["idle_in_transaction_session_timeout"] = "10000" // A client that stands still must not keep rows locked.
	boundConnect(pc.ConnConfig)
	pc.AfterConnect = prepare
	if cfg.Tracers != nil {
		pc.ConnConfig.Tracer = newTracer(cfg.Tracers)
	}
	db := &DB{
		q: dbsqlc.New(), configs: newConfigs(max(cfg.Slots, usualSlots)),
		waits: cmp.Or(cfg.connWait, connWait), limit: cmp.Or(cfg.txWait, txWait), now: func() *time.Time { return nil },
	}
	if db.contain = cfg.Contain; db.contain == nil {
		db.contain = recovered
	}
	if err := db.connect(ctx, pc, cmp.Or(cfg.lockWait, lockWait)); err != nil {
		return nil, fmt.Errorf("opening the database pool: %w", redactURL(err))
	}
	if cfg.Now != nil {
		db.now = func() *time.Time { return new(cfg.Now()) }
	}
	return db, nil
}

// recovered runs a step, and returns its panic as an error.
func recovered(step func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a fault inside Rubato: %v", fault)
		}
	}()
	step()
	return nil
}

// boundConnect gives each server of the URL a bounded time to let us in, unless the URL does (connect_timeout): where it names several, the
// one that is gone without a word must not keep us from the one that took over.
func boundConnect(cc *pgx.ConnConfig) { cc.ConnectTimeout = cmp.Or(cc.ConnectTimeout, 5*time.Second) }

// connect prepares the pools, each of its own size; lockWait is how long a statement of the main one waits for a lock.
func (db *DB) connect(ctx context.Context, pc *pgxpool.Config, lockWait time.Duration) error {
	main := pc.MaxConns
	for _, p := range []struct {
		pool    **pgxpool.Pool
		conns   int32
		trusted time.Duration
	}{
		{&db.pool, main, mainTrusted}, {&db.hot, hotConns, loopTrusted}, {&db.vital, vitalConns, loopTrusted}, {&db.sweeps, sweepConns, loopTrusted},
	} {
		own := pc.Copy()
		if p.pool == &db.pool {
			own.ConnConfig.RuntimeParams = maps.Clone(own.ConnConfig.RuntimeParams)
			own.ConnConfig.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockWait.Milliseconds(), 10)
		} else {
			own.ConnConfig.StatementCacheCapacity, own.ConnConfig.DescriptionCacheCapacity = loopStatements, loopStatements
		}
		if p.pool == &db.hot {
			own.ConnConfig.RuntimeParams = planByKey(own.ConnConfig.RuntimeParams)
		}
		own.ShouldPing = func(_ context.Context, idle pgxpool.ShouldPingParams) bool { return idle.IdleDuration > p.trusted }
		own.MaxConns = p.conns
		own.MinConns, own.MinIdleConns = min(own.MinConns, p.conns), min(own.MinIdleConns, p.conns)
		pool, err := pgxpool.NewWithConfig(ctx, own)
		if err != nil {
			db.Close()
			return err
		}
		*p.pool = pool
	}
	return nil
}

// planByKey adds to parameters what lets the hot pool make its plans once: not reading an index in order or by a bitmap either. Such a plan
// is the same for an empty table and a full one, so it can stay; making it each time took as long as carrying it out. The rest is off for
// every pool; see Open.
func planByKey(params map[string]string) map[string]string {
	params = maps.Clone(params) // A copy of a pool's configuration shares them.
	params["enable_bitmapscan"] = "off"
	params["enable_indexonlyscan"] = "off"
	params["plan_cache_mode"] = "force_generic_plan"
	return params
}

// prepare tells the driver how values look on a new connection.
func prepare(_ context.Context, conn *pgx.Conn) error {
	instantsInUTC(conn.TypeMap())
	quickArrays(conn.TypeMap())
	documentsAsTheyAre(conn.TypeMap())
	return nil
}

// Close closes every connection and waits for those in use, though not for long: the driver waits 15 s for each that a silent database has
// left without an answer, and by then whoever supervises the program has killed it.
func (db *DB) Close() {
	db.waker.close()
	var pools sync.WaitGroup
	for _, pool := range []*pgxpool.Pool{db.pool, db.hot, db.vital, db.sweeps} {
		if pool != nil {
			pools.Go(pool.Close)
		}
	}
	closed := make(chan struct{})
	go func() { defer close(closed); pools.Wait() }()
	select {
	case <-closed:
	case <-time.After(closeWait):
	}
}

// Ping returns nil when the database answers.
func (db *DB) Ping(ctx context.Context) error { return translate(db.pool.Ping(ctx)) }

// tx runs act in one transaction (read committed). Errors come translated.
func (db *DB) tx(ctx context.Context, act func(tx pgx.Tx) error) error {
	conn, release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return translate(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := act(tx); err != nil {
			return err
		}
		return db.execute(ctx, tx)
	}))
}

// opened is a transaction that is open: a pgx.Tx, or a connection that is inside one.
type opened interface {
	dbsqlc.DBTX
	sender
}

// txAfter is tx for new endpoints and for a change of one. Its BEGIN travels with the statements of first, so that it takes two round trips
// less than a transaction that asks one by one; act sees what they read. Every statement in it finds rows by key, so its plan is made once,
// and so is that of the lookups behind the foreign keys of each new row.
func (db *DB) txAfter(ctx context.Context, first []statement, act func(tx opened) error) error {
	conn, release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release() // It closes a connection whose transaction could not be ended.
	first = slices.Concat([]statement{
		func(q dbsqlc.DBTX) error { return db.q.Begin(ctx, q) },
		func(q dbsqlc.DBTX) error { return db.q.KeepPlans(ctx, q) },
	}, first)
	if err = pipeline(ctx, conn, first...); err == nil {
		err = act(conn)
	}
	if err == nil {
		err = db.execute(ctx, conn)
	}
	if err == nil {
		err = db.commit(ctx, conn)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		_ = db.q.Rollback(ctx, conn) // Where it fails the connection is not used again.
	}
	return translate(err)
}

// commit commits the transaction that a connection is inside. Postgres takes the commit of one that has failed for a rollback, and sees no
// error in it.
func (db *DB) commit(ctx context.Context, conn dbsqlc.DBTX) error {
	tag, err := db.q.Commit(ctx, conn)
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollbackTime bounds the end of a transaction that failed.
const rollbackTime = 5 * time.Second

// acquire returns a connection of the main pool for one transaction, and what gives it back. A transaction longer than db.limit fails at its
// next statement: streams and imports set no deadline, and neither does a database that stands still. The error is an [errs.Unavailable]
// where no connection comes free within db.waits.
func (db *DB) acquire(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, db.waits)
	defer cancel()
	conn, err = db.pool.Acquire(waiting)
	if err != nil {
		return nil, nil, db.noConnection(ctx, waiting, err)
	}
	wire := conn.Conn().PgConn().Conn()
	limit := time.AfterFunc(db.limit, func() { _ = wire.SetDeadline(time.Now()) })
	return conn, func() {
		if !limit.Stop() { // Nothing can be said on it any more.
			_ = conn.Conn().Close(ctx)
		}
		conn.Release()
	}, nil
}

// noConnection returns why the main pool gave no connection while waiting, which is ctx for db.waits at most.
func (db *DB) noConnection(ctx, waiting context.Context, err error) error {
	if waiting.Err() == nil || errors.Is(ctx.Err(), context.Canceled) {
		return translate(err)
	}
	if pool := db.pool.Stat(); pool.AcquiredConns() == pool.MaxConns() {
		return busy(err, fmt.Sprintf("all %d connections to the database were busy for %s, and nothing was changed; try again", pool.MaxConns(), db.waits))
	}
	return errs.Wrap(err, errs.Unavailable, "the database cannot be reached; try again") // It let nobody in for that long.
}

const (
	// connWait is how long a transaction waits for a connection: who asks is answered before they give up.
	connWait = 5 * time.Second
	// lockWait is how long a statement of the main pool waits for a lock. What holds one is a transaction of milliseconds; beyond this
	// somebody stands in the way, and the one who asks had better know.
	lockWait = 10 * time.Second
	// txWait is how long a transaction of the main pool may take. Requests of the API end sooner.
	txWait = 30 * time.Second
)

// brief bounds a statement of the main pool that is a transaction by itself, on which more than one request of the API may wait.
func (db *DB) brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, db.limit)
}

// hotTx is tx on the connections of the hot path.
func (db *DB) hotTx(ctx context.Context, act func(tx pgx.Tx) error) error {
	return translate(pgx.BeginFunc(ctx, db.hot, act))
}

// decisionTime returns the database's time in whole milliseconds, as every due time is.
func (db *DB) decisionTime(ctx context.Context, tx dbsqlc.DBTX) (time.Time, error) {
	return db.q.DecisionTime(ctx, tx, db.now())
}

// clock is decisionTime as one of several statements that travel together.
func (db *DB) clock(ctx context.Context, now *time.Time) statement {
	return func(q dbsqlc.DBTX) (err error) {
		*now, err = db.decisionTime(ctx, q)
		return err
	}
}

// snapshot runs act in one read-only transaction that sees one state of the database.
func (db *DB) snapshot(ctx context.Context, act func(tx pgx.Tx) error) error {
	conn, release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return translate(pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, act))
}

// list is snapshot for a statement whose plan depends on which filters are given.
func (db *DB) list(ctx context.Context, act func(tx pgx.Tx) error) error {
	return db.snapshot(ctx, func(tx pgx.Tx) error {
		if err := db.q.PlanForValues(ctx, tx); err != nil {
			return fmt.Errorf("asking for plans that know the filters: %w", err)
		}
		return act(tx)
	})
}
