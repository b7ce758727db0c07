package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/auditlog"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
)

// The default settings of the programs.
const (
	lockTTL      = time.Minute
	horizon      = 10 * time.Second
	sendLimit    = time.Second
	lockMargin   = time.Second
	watchPeriod  = 500 * time.Millisecond // how late a holder may see that its lock is over
	silentWorker = 6 * time.Second
	staleAfter   = 90 * time.Second
	settlePeriod = 180 * time.Second
	lockReach    = horizon + lockTTL + time.Second
	lockSlack    = 10 * time.Second      // by which a lock may lie further ahead than any that is granted now
	startSlack   = 50 * time.Millisecond // by which a start may be early
)

// epoch is the database time at which every case begins. The date of the test has no effect.
var epoch = time.Date(2031, time.March, 3, 12, 0, 0, 0, time.UTC)

// The names of the connections of the two pools of stores. The held one blocks at its commit while
// the gate is shut.
const (
	freeName = "sim-free"
	heldName = "sim-held"
)

// stores holds every store over one pool.
type stores struct {
	claims     *items.Claims
	executions *items.Executions
	sweeps     *items.Sweeps
	service    *endpoints.Service
}

// bench is shared by all cases: the database and its connections.
type bench struct {
	url        string
	free, held *stores
	conn       *pgx.Conn // reads the log of changes, and clears the tables
	gate       *pgx.Conn // holds the gate
	reached    map[string]int
	cases      int64
	seen       int64 // the last change that was read
	world      *world
}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	b := &bench{url: url, conn: connect(t, url), gate: connect(t, url), reached: map[string]int{}}
	_, err := b.conn.Exec(t.Context(), instruments)
	require.NoError(t, err)
	for day := -2; day < 4; day++ { // A case moves by hours at most.
		_, err := b.conn.Exec(t.Context(), "SELECT history_create_day($1)", epoch.AddDate(0, 0, day))
		require.NoError(t, err)
	}
	b.free, b.held = b.open(t, url, freeName), b.open(t, url, heldName)
	return b
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "SET timezone = 'UTC'")
	require.NoError(t, err)
	return conn
}

func (b *bench) open(t *testing.T, url, name string) *stores {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: url, ApplicationName: name, Now: func() time.Time { return b.world.now() }})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	states := endpointstore.NewStates(db, 0)
	return &stores{
		claims: items.NewClaims(db), executions: items.NewExecutions(states), sweeps: items.NewSweeps(states),
		service: endpoints.NewService(&registrar{Store: endpointstore.NewStore(states), bench: b}, anyTarget{}),
	}
}

// registrar assigns the next ID of the case to new endpoints instead of a random one, so that a
// case can be replayed. Versions begin at a number per case, because configurations are cached by
// ID and version.
type registrar struct {
	*endpointstore.Store
	bench *bench
}

// Create implements endpoints.Store.
func (r *registrar) Create(
	ctx context.Context, act auditlog.Act, create func(time.Time) (*endpoints.Endpoint, endpoints.Recorded, error),
) error {
	return r.Store.Create(ctx, act, func(now time.Time) (*endpoints.Endpoint, endpoints.Recorded, error) {
		e, drafted, err := create(now)
		if err != nil {
			return nil, endpoints.Recorded{}, err
		}
		e.ID, e.Version = r.bench.world.nextID(), r.bench.cases<<20
		planned, err := e.Replan(now)
		planned.Cause, planned.Author = drafted.Cause, drafted.Author
		return e, planned, err
	})
}

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

// world is one case: the actors, their time, and the observed state of the database.
type world struct {
	*bench
	t   *rapid.T
	ctx context.Context //nolint:containedctx // One case is one call.

	bases   map[runs.ID]dispatch.Basis // what starts read for finishes
	elapsed time.Duration              // what monotonic clocks show
	offset  time.Duration              // by how much the database's clock was set
	ahead   time.Duration              // the most that it was ahead
	jumps   int                        // how often it was set
	ids     uint32

	mirror  *mirror
	model   map[endpoints.ID]*intent
	workers []*worker
	sweeper sweeper
	wire    wire
	sent    []*call // statements that may be repeated
	racing  bool
	trail   []string
}

// intent is the users' latest requests, as far as later steps are judged by them.
type intent struct {
	paused time.Duration // when the last pause returned
	specs  map[int64]endpoints.Spec
}

func (b *bench) newWorld(t *rapid.T) *world {
	w := &world{
		bench: b, t: t, ctx: context.Background(), mirror: newMirror(), model: map[endpoints.ID]*intent{}, wire: newWire(), bases: map[runs.ID]dispatch.Basis{},
	}
	w.sweeper.watching, w.sweeper.stepped = -settlePeriod, -settlePeriod // Until something blinds it, it believes in silence.
	b.world = w
	b.cases++
	b.clear()
	for range 3 {
		w.workers = append(w.workers, w.newWorker())
	}
	return w
}

// clear empties the tables.
func (b *bench) clear() {
	var batch pgx.Batch
	batch.Queue("SET session_replication_role = replica") // Runs in flight go too, which is no legal move.
	for table := range strings.FieldsSeq("one_off_items one_off_keys schedules hints decisions runs run_bodies run_events run_requests dead_letters endpoint_versions endpoints workers") {
		batch.Queue("DELETE FROM " + table)
	}
	batch.Queue("RESET session_replication_role")
	batch.Queue("TRUNCATE sim_changes")
	if err := b.conn.SendBatch(context.Background(), &batch).Close(); err != nil {
		panic(err)
	}
}

// now is the database's time.
func (w *world) now() time.Time { return epoch.Add(w.elapsed + w.offset) }

// nextID returns an ID that depends on the case alone.
func (w *world) nextID() endpoints.ID {
	w.ids++
	id := uuid.UUID{0x01, 0x93, 0x46, 0x6f, 0x2a, 0x10, 0x7c, 0x3e, 0x9d, 0x41}
	id[14], id[15] = byte(w.ids>>8), byte(w.ids)
	return endpoints.ID(id)
}

// fail ends the case with the violation and the steps that led to it.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trail {
		w.t.Log(line)
	}
	w.t.Fatalf("at %s: %s", w.clock(), fmt.Sprintf(format, args...))
}

// ensure fails the case unless a condition holds.
func (w *world) ensure(holds bool, format string, args ...any) {
	w.t.Helper()
	if !holds {
		w.fail(format, args...)
	}
}

func (w *world) note(format string, args ...any) {
	w.trail = append(w.trail, w.clock()+" "+fmt.Sprintf(format, args...))
}

func (w *world) clock() string {
	return fmt.Sprintf("%s (database %s)", w.elapsed, w.now().Format("15:04:05.000000"))
}

// reach counts a state that the simulation must not stop reaching.
func (w *world) reach(what string) { w.reached[what]++ }

func short(id [16]byte) string { return fmt.Sprintf("%x", id[14:]) }

func runName(id runs.ID) string {
	return fmt.Sprintf("%s@%x", id.Slot().Format("15:04:05.000"), id[6:8])
}
