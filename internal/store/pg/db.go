// Package pg connects stores to Postgres: pools, transactions, pipelines, codecs, migrations,
// notifications and translated errors. Audit entries and idempotency marks are written here,
// because they belong to transactions. The packages beside it have one subject each and share a
// [DB]. Together they are the only packages that know SQL, rows and SQLSTATEs.
//
// Every method of a store is one transaction. Statements that change state name the expected state
// (compare-and-set), and the number of changed rows is checked. Time comes from the database,
// because the clocks of workers differ.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
)

// Config configures the connections to a database. Zero fields mean their defaults.
type Config struct {
	URL string
	// MaxConns bounds the main pool; default 10, because fewer keep two cores of a database busy.
	// Heartbeats and sweeps have small pools of their own.
	MaxConns int32
	// ApplicationName is shown in pg_stat_activity; default "rubato".
	ApplicationName string
	// Tracers makes a span of every statement that belongs to a trace, without the statement's
	// parameters. Nil disables tracing.
	Tracers trace.TracerProvider
	// Now replaces the database's clock in simulations of time. Nil means the database's clock.
	Now func() time.Time
	// Contain runs a step that decides about one endpoint, and returns its panic as an error. It
	// should count and log the panic, as [loop.Runner.Contain] does. If it is nil, the panic is
	// only returned.
	Contain func(step func()) error

	// connWait, lockWait and txWait override the constants of the same names in tests, unless they
	// are zero.
	connWait, lockWait, txWait time.Duration
}

const (
	// hotConns is the size of the hot pool: a claim, two batches of starts, two batches of finishes
	// and their lookups at the same time.
	hotConns = 8
	// vitalConns is the size of the pool for heartbeats: one for runs, one for the worker.
	vitalConns = 2
	// sweepConns is the size of the sweeper's pool: one holds the lock, the other sweeps.
	sweepConns = 2

	// loopStatements bounds the prepared statements per connection of these three pools. They use
	// some dozens. A larger bound wastes memory, because the driver allocates its caches in full.
	loopStatements = 128

	// closeWait bounds the wait for connections in use at a graceful shutdown.
	closeWait = 3 * time.Second

	// A connection that was idle for longer is pinged before use. On the main pool a request of a
	// user waits. The loops of the other three pools retry by themselves, so they trust a
	// connection for longer: a ping before every poll would double their round trips.
	mainPingAfter = 2 * time.Second
	loopPingAfter = 5 * time.Second
)

// DB is a set of connection pools to one database. It is safe for concurrent use. Connections are
// opened on first use, so that a program without a worker never opens those of a worker.
type DB struct {
	Pool *pgxpool.Pool
	// hot serves the hot path of a worker: claims, starts and finishes.
	Hot *pgxpool.Pool
	// vital serves heartbeats only, so that they never queue behind other statements.
	Vital *pgxpool.Pool
	// sweeps serves the sweeper only.
	Sweeps *pgxpool.Pool
	Q      *dbsqlc.Queries
	waker  waker
	// waits is the timeout for a connection of the main pool.
	waits time.Duration
	// limit is the timeout of a transaction of the main pool.
	limit time.Duration
	// now returns the time for statements. A nil result means the database's clock.
	Now     func() *time.Time
	Contain func(step func()) error
}

// Open prepares the pools. They connect on first use, so Open succeeds while the database is down.
// The error is about the URL only.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", redactURL(err))
	}
	pc.MaxConns = cmp.Or(max(cfg.MaxConns, 0), 10)
	params := pc.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(cfg.ApplicationName, "rubato")
	params["timezone"] = "UTC"
	// Read committed, because a statement after a lock wait must see the commit of the lock holder.
	params["default_transaction_isolation"] = "read committed"
	// Every statement should use an index. The planner's statistics lag behind the numbers of
	// claims and live runs. On a young table they would make it choose hash joins or sequential
	// scans, at times a hundred times slower. Plans are made per execution for the
	// given values. Only the hot pool uses generic plans: see planByKey.
	params["enable_hashjoin"] = "off"
	params["enable_mergejoin"] = "off"
	params["enable_seqscan"] = "off"
	params["plan_cache_mode"] = "force_custom_plan"
	params["jit"] = "off" // Statements take milliseconds, and JIT compilation of one takes a hundred.
	// A client that hangs inside a transaction must not keep rows locked.
	params["idle_in_transaction_session_timeout"] = "10000" // milliseconds
	boundConnect(pc.ConnConfig)
	pc.AfterConnect = prepare
	if cfg.Tracers != nil {
		pc.ConnConfig.Tracer = newTracer(cfg.Tracers)
	}
	db := &DB{
		Q:     dbsqlc.New(),
		waits: cmp.Or(cfg.connWait, connWait),
		limit: cmp.Or(cfg.txWait, txWait),
		Now:   func() *time.Time { return nil },
	}
	if db.Contain = cfg.Contain; db.Contain == nil {
		db.Contain = recovered
	}
	if err := db.connect(ctx, pc, cmp.Or(cfg.lockWait, lockWait)); err != nil {
		return nil, fmt.Errorf("opening the database pool: %w", redactURL(err))
	}
	if cfg.Now != nil {
		db.Now = func() *time.Time { return new(cfg.Now()) }
	}
	return db, nil
}

// recovered runs a step and returns its panic as an error.
func recovered(step func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a fault inside Rubato: %v", fault)
		}
	}()
	step()
	return nil
}

// boundConnect sets a connect timeout per server of the URL, unless the URL sets connect_timeout.
// With several servers, one that silently drops packets must not delay the failover to the next.
func boundConnect(cc *pgx.ConnConfig) { cc.ConnectTimeout = cmp.Or(cc.ConnectTimeout, 5*time.Second) }

// connect prepares the pools. lockWait is the lock_timeout of the main pool.
func (db *DB) connect(ctx context.Context, pc *pgxpool.Config, lockWait time.Duration) error {
	main := pc.MaxConns
	for _, p := range []struct {
		pool      **pgxpool.Pool
		conns     int32
		pingAfter time.Duration
	}{
		{&db.Pool, main, mainPingAfter}, {&db.Hot, hotConns, loopPingAfter}, {&db.Vital, vitalConns, loopPingAfter}, {&db.Sweeps, sweepConns, loopPingAfter},
	} {
		own := pc.Copy()
		if p.pool == &db.Pool {
			own.ConnConfig.RuntimeParams = maps.Clone(own.ConnConfig.RuntimeParams)
			own.ConnConfig.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockWait.Milliseconds(), 10)
		} else {
			own.ConnConfig.StatementCacheCapacity, own.ConnConfig.DescriptionCacheCapacity = loopStatements, loopStatements
		}
		if p.pool == &db.Hot {
			own.ConnConfig.RuntimeParams = planByKey(own.ConnConfig.RuntimeParams)
		}
		own.ShouldPing = func(_ context.Context, idle pgxpool.ShouldPingParams) bool { return idle.IdleDuration > p.pingAfter }
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

// planByKey returns the parameters of the hot pool, which uses generic plans. It also disables
// bitmap scans and index-only scans. The remaining plan is an index scan by key. It is right for an
// empty and for a full table, so it is made once. Planning each execution took as long as executing
// it. Open disables the other plan types for every pool.
func planByKey(params map[string]string) map[string]string {
	params = maps.Clone(params) // Copies of a pool's configuration share the map.
	params["enable_bitmapscan"] = "off"
	params["enable_indexonlyscan"] = "off"
	params["plan_cache_mode"] = "force_generic_plan"
	return params
}

// prepare registers the package's codecs on a new connection.
func prepare(_ context.Context, conn *pgx.Conn) error {
	instantsInUTC(conn.TypeMap())
	quickArrays(conn.TypeMap())
	registerDocuments(conn.TypeMap())
	return nil
}

// Close closes all connections. It waits up to closeWait for those in use. The driver alone would
// wait 15 s for a connection to an unresponsive database, which is longer than most supervisors
// wait before they kill a process.
func (db *DB) Close() {
	db.waker.close()
	var pools sync.WaitGroup
	for _, pool := range []*pgxpool.Pool{db.Pool, db.Hot, db.Vital, db.Sweeps} {
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

// Ping returns nil if the database answers.
func (db *DB) Ping(ctx context.Context) error { return Translate(db.Pool.Ping(ctx)) }

// Tx runs act in one read committed transaction on the main pool, and returns translated errors. If
// the context carries an idempotency key, the key is marked in the same transaction.
func (db *DB) Tx(ctx context.Context, act func(tx pgx.Tx) error) error {
	conn, release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return Translate(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := act(tx); err != nil {
			return err
		}
		return db.execute(ctx, tx)
	}))
}

// OpenTx is an open transaction: a pgx.Tx, or a connection inside a transaction.
type OpenTx interface {
	dbsqlc.DBTX
	sender
}

// TxAfter is tx for creating endpoints and for changing one. It sends BEGIN together with the
// statements of first, which saves two round trips. act sees their results. Its transaction uses
// generic plans, because every statement finds rows by key. This includes the foreign key lookups
// of each new row.
func (db *DB) TxAfter(ctx context.Context, first []Statement, act func(tx OpenTx) error) error {
	conn, release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release() // The pool closes a connection that is still inside a transaction.
	first = slices.Concat([]Statement{
		func(q dbsqlc.DBTX) error { return db.Q.Begin(ctx, q) },
		func(q dbsqlc.DBTX) error { return db.Q.PlanGeneric(ctx, q) },
	}, first)
	if err = Pipeline(ctx, conn, first...); err == nil {
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
		_ = db.Q.Rollback(ctx, conn) // If it fails, the pool closes the connection.
	}
	return Translate(err)
}

// commit commits the open transaction of a connection. Postgres answers the commit of a failed
// transaction with a rollback and without an error, therefore the command tag is checked.
func (db *DB) commit(ctx context.Context, conn dbsqlc.DBTX) error {
	tag, err := db.Q.Commit(ctx, conn)
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollbackTime is the timeout of a rollback.
const rollbackTime = 5 * time.Second

// acquire returns a connection of the main pool for one transaction. The caller must call release.
// After db.limit the connection's deadline expires, so that the next statement fails. This also
// bounds contexts without a deadline, such as those of streams and imports, and calls to an
// unresponsive database. The error is an [errs.Unavailable] if no connection becomes free within
// db.waits.
func (db *DB) acquire(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, db.waits)
	defer cancel()
	conn, err = db.Pool.Acquire(waiting)
	if err != nil {
		return nil, nil, db.noConnection(ctx, waiting, err)
	}
	socket := conn.Conn().PgConn().Conn()
	limit := time.AfterFunc(db.limit, func() { _ = socket.SetDeadline(time.Now()) })
	return conn, func() {
		if !limit.Stop() { // Its deadline has expired, so it is unusable.
			_ = conn.Conn().Close(ctx)
		}
		conn.Release()
	}, nil
}

// noConnection returns the error for a failed acquire. waiting is ctx with the timeout db.waits.
func (db *DB) noConnection(ctx, waiting context.Context, err error) error {
	if waiting.Err() == nil || errors.Is(ctx.Err(), context.Canceled) {
		return Translate(err)
	}
	if pool := db.Pool.Stat(); pool.AcquiredConns() == pool.MaxConns() {
		return busy(err, fmt.Sprintf("all %d connections to the database were busy for %s, and nothing was changed; try again", pool.MaxConns(), db.waits))
	}
	// The pool is not exhausted, so no connection could be opened for that long.
	return errs.Wrap(err, errs.Unavailable, "the database cannot be reached; try again")
}

const (
	// connWait is the timeout for a connection of the main pool. It is shorter than usual client
	// timeouts, so that the client gets an error response.
	connWait = 5 * time.Second
	// lockWait is the lock_timeout of the main pool. Locks are held for milliseconds. A longer wait
	// means a stuck transaction, and the caller gets an error that says so.
	lockWait = 10 * time.Second
	// txWait is the timeout of a transaction of the main pool. API requests have shorter timeouts.
	txWait = 30 * time.Second
)

// WithLimit applies the transaction timeout to a single statement outside a transaction. Several
// API requests may wait for its result.
func (db *DB) WithLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, db.limit)
}

// HotTx is tx on the hot pool, without idempotency keys.
func (db *DB) HotTx(ctx context.Context, act func(tx pgx.Tx) error) error {
	return Translate(pgx.BeginFunc(ctx, db.Hot, act))
}

// DecisionTime returns the database's time in whole milliseconds, the precision of due times.
func (db *DB) DecisionTime(ctx context.Context, tx dbsqlc.DBTX) (time.Time, error) {
	return db.Q.DecisionTime(ctx, tx, db.Now())
}

// Clock is DecisionTime as a statement of a pipeline.
func (db *DB) Clock(ctx context.Context, now *time.Time) Statement {
	return func(q dbsqlc.DBTX) (err error) {
		*now, err = db.DecisionTime(ctx, q)
		return err
	}
}

// Snapshot runs act in a read-only repeatable read transaction, so that all statements see one
// snapshot.
func (db *DB) Snapshot(ctx context.Context, act func(tx pgx.Tx) error) error {
	conn, release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return Translate(pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, act))
}

// List is snapshot for statements with optional filters, because their best plan depends on the
// given ones.
func (db *DB) List(ctx context.Context, act func(tx pgx.Tx) error) error {
	return db.Snapshot(ctx, func(tx pgx.Tx) error {
		if err := db.Q.PlanCustom(ctx, tx); err != nil {
			return fmt.Errorf("setting the plan mode: %w", err)
		}
		return act(tx)
	})
}
