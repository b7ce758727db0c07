package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// instruments adds to the schema what lets the simulation see every row that a statement changes, and hold a transaction at its
// commit: a log of changes, and a gate that the connections of one name pass only while it is open.
const instruments = `
CREATE UNLOGGED TABLE sim_changes (
    seq bigint GENERATED ALWAYS AS IDENTITY, app text, tab text, op text, old json, new json
);
CREATE FUNCTION sim_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sim_changes (app, tab, op, old, new)
    VALUES (current_setting('application_name'), TG_ARGV[0], TG_OP,
            CASE WHEN TG_OP <> 'INSERT' THEN row_to_json(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN row_to_json(NEW) END);
    RETURN NULL;
END
$$;
CREATE FUNCTION sim_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'sim-held' THEN
        PERFORM pg_advisory_xact_lock_shared(7001, 1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON schedules FOR EACH ROW EXECUTE FUNCTION sim_log('schedules');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON live_runs FOR EACH ROW EXECUTE FUNCTION sim_log('live_runs');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION sim_log('runs');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON hints FOR EACH ROW EXECUTE FUNCTION sim_log('hints');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON decisions FOR EACH ROW EXECUTE FUNCTION sim_log('decisions');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON workers FOR EACH ROW EXECUTE FUNCTION sim_log('workers');
CREATE CONSTRAINT TRIGGER sim_gate AFTER INSERT OR UPDATE OR DELETE ON live_runs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION sim_gate();
CREATE CONSTRAINT TRIGGER sim_gate AFTER UPDATE OR DELETE ON schedules DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION sim_gate();
`

// The rows, with the columns that are judged.
type (
	schedule struct {
		EndpointID   uuid.UUID  `json:"endpoint_id"`
		DueAt        time.Time  `json:"due_at"`
		PlannedAt    time.Time  `json:"planned_at"`
		Slot         time.Time  `json:"slot"`
		Token        int64      `json:"claim_token"`
		ClaimedBy    *uuid.UUID `json:"claimed_by"`
		Version      int64      `json:"version"`
		LockMs       int64      `json:"lock_ms"`
		Attempt      int        `json:"attempt"`
		Source       string     `json:"source"`
		Anchor       time.Time  `json:"anchor"`
		FailureCount int        `json:"failure_count"`
		PausedUntil  time.Time  `json:"paused_until"`
		ManualAt     time.Time  `json:"manual_at"`
		RetryAfter   time.Time  `json:"retry_after"`
		LastSlot     time.Time  `json:"last_slot"`
		LastStart    time.Time  `json:"last_started_at"`
		LastStatus   string     `json:"last_status"`
		Accounted    time.Time  `json:"accounted_until"`
	}
	liveRun struct {
		EndpointID  uuid.UUID `json:"endpoint_id"`
		RunID       uuid.UUID `json:"run_id"`
		Slot        time.Time `json:"slot"`
		Attempt     int       `json:"attempt"`
		Source      string    `json:"source"`
		Token       int64     `json:"claim_token"`
		WorkerID    uuid.UUID `json:"worker_id"`
		StartedAt   time.Time `json:"started_at"`
		DeadlineAt  time.Time `json:"deadline_at"`
		LockedUntil time.Time `json:"locked_until"`
	}
	pastRun struct {
		ID           uuid.UUID       `json:"id"`
		EndpointID   uuid.UUID       `json:"endpoint_id"`
		Slot         time.Time       `json:"scheduled_for"`
		Attempt      int             `json:"attempt"`
		Source       string          `json:"source"`
		Token        int64           `json:"claim_token"`
		WorkerID     uuid.UUID       `json:"worker_id"`
		StartedAt    time.Time       `json:"started_at"`
		FinishedAt   time.Time       `json:"finished_at"`
		Status       runs.Status     `json:"status"`
		Reason       runs.Reason     `json:"reason_code"`
		NextRunAt    time.Time       `json:"next_run_at"`
		NextSource   string          `json:"next_source"`
		NextSteps    json.RawMessage `json:"next_steps"`
		FailureCount int             `json:"failure_count"`
		SkippedFrom  time.Time       `json:"skipped_from"`
		SkippedCount int64           `json:"skipped_count"`
	}
	hint struct {
		ID         int64     `json:"id"`
		EndpointID uuid.UUID `json:"endpoint_id"`
		Kind       string    `json:"kind"`
		IntervalMs int64     `json:"interval_ms"`
		RunAt      time.Time `json:"run_at"`
		ExpiresAt  time.Time `json:"expires_at"`
		Reason     string    `json:"reason"`
		EndedAt    time.Time `json:"ended_at"`
	}
	decision struct {
		EndpointID uuid.UUID       `json:"endpoint_id"`
		DecidedAt  time.Time       `json:"decided_at"`
		Cause      string          `json:"cause"`
		Version    int64           `json:"version"`
		NextRunAt  time.Time       `json:"next_run_at"`
		NextSource string          `json:"next_source"`
		NextSteps  json.RawMessage `json:"next_steps"`
		Input      json.RawMessage `json:"input"`
	}
	workerRow struct {
		ID          uuid.UUID `json:"id"`
		State       string    `json:"state"`
		HeartbeatAt time.Time `json:"heartbeat_at"`
		FreedAt     time.Time `json:"freed_at"`
	}
)

// change is what a statement did to one row. Before is nil for an insert, after for a delete.
type change[T any] struct {
	before, after *T
}

// changes is what one call did, by table, in the order in which it did it.
type changes struct {
	schedules []change[schedule]
	live      []change[liveRun]
	history   []change[pastRun]
	skips     []*pastRun // rows of the same table that are no runs
	hints     []change[hint]
	decisions []change[decision]
	workers   []change[workerRow]
}

// drain reads what was changed since the last time, by the name of the connection.
func (b *bench) drain() (map[string]*changes, error) {
	rows, err := b.conn.Query(b.world.ctx, "SELECT seq, app, tab, op, old::text, new::text FROM sim_changes WHERE seq > $1 ORDER BY seq", b.seen)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]*changes{freeName: {}, heldName: {}}
	for rows.Next() {
		var app, table, op string
		var before, after *string
		if err := rows.Scan(&b.seen, &app, &table, &op, &before, &after); err != nil {
			return nil, err
		}
		if err := found[app].add(table, before, after); err != nil {
			return nil, err
		}
	}
	return found, rows.Err()
}

func (c *changes) add(table string, before, after *string) error {
	switch table {
	case "schedules":
		return decode(&c.schedules, before, after)
	case "live_runs":
		return decode(&c.live, before, after)
	case "runs":
		err := decode(&c.history, before, after)
		if n := len(c.history) - 1; err == nil && c.history[n].before == nil && c.history[n].after.Attempt == 0 {
			c.skips = append(c.skips, c.history[n].after)
			c.history = c.history[:n]
		}
		return err
	case "hints":
		return decode(&c.hints, before, after)
	case "decisions":
		return decode(&c.decisions, before, after)
	case "workers":
		return decode(&c.workers, before, after)
	default:
		return fmt.Errorf("a change of the unknown table %q", table)
	}
}

func decode[T any](list *[]change[T], before, after *string) error {
	old, err := rowOf[T](before)
	if err != nil {
		return err
	}
	fresh, err := rowOf[T](after)
	if err != nil {
		return err
	}
	*list = append(*list, change[T]{before: old, after: fresh})
	return nil
}

func rowOf[T any](text *string) (*T, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // No row is an answer.
	}
	row := new(T)
	if err := json.Unmarshal([]byte(*text), row); err != nil {
		return nil, fmt.Errorf("reading a logged row: %w", err)
	}
	return row, nil
}

// mirror is the state of the database as the log of changes tells it.
type mirror struct {
	schedules map[endpoints.ID]*schedule
	live      map[endpoints.ID]*liveRun
	history   map[runs.ID]*pastRun
	hints     map[endpoints.ID]map[string]*hint // in force, by kind
	ledger    map[endpoints.ID]ledger
	workers   map[uuid.UUID]*workerRow
	started   map[endpoints.ID]*liveRun // the last start
	succeeded map[slotKey]runs.ID
	skipped   map[endpoints.ID][]*pastRun // in the order in which they were recorded
	born      map[endpoints.ID]time.Time
}

type slotKey struct {
	endpoint endpoints.ID
	slot     int64
}

// ledger is what the last decision about an endpoint said.
type ledger struct {
	at     time.Time
	source string
}

func newMirror() *mirror {
	return &mirror{
		schedules: map[endpoints.ID]*schedule{}, live: map[endpoints.ID]*liveRun{}, history: map[runs.ID]*pastRun{},
		hints: map[endpoints.ID]map[string]*hint{}, ledger: map[endpoints.ID]ledger{}, workers: map[uuid.UUID]*workerRow{},
		started: map[endpoints.ID]*liveRun{}, succeeded: map[slotKey]runs.ID{},
		skipped: map[endpoints.ID][]*pastRun{}, born: map[endpoints.ID]time.Time{},
	}
}

// apply takes in what a call changed.
func (m *mirror) apply(c *changes) {
	for _, s := range c.schedules {
		put(m.schedules, s, func(s *schedule) endpoints.ID { return endpoints.ID(s.EndpointID) })
	}
	for _, l := range c.live {
		put(m.live, l, func(l *liveRun) endpoints.ID { return endpoints.ID(l.EndpointID) })
	}
	for _, r := range c.history {
		put(m.history, r, func(r *pastRun) runs.ID { return runs.ID(r.ID) })
		if r.after != nil && !r.after.NextRunAt.IsZero() {
			m.ledger[endpoints.ID(r.after.EndpointID)] = ledger{at: r.after.NextRunAt, source: r.after.NextSource}
		}
	}
	for _, s := range c.skips {
		id := endpoints.ID(s.EndpointID)
		m.skipped[id] = append(m.skipped[id], s)
	}
	for _, d := range c.decisions {
		if d.after != nil {
			if id := endpoints.ID(d.after.EndpointID); m.born[id].IsZero() {
				m.born[id] = d.after.DecidedAt
			}
			m.ledger[endpoints.ID(d.after.EndpointID)] = ledger{at: d.after.NextRunAt, source: d.after.NextSource}
		}
	}
	for _, w := range c.workers {
		put(m.workers, w, func(w *workerRow) uuid.UUID { return w.ID })
	}
	for _, h := range c.hints {
		m.applyHint(h)
	}
}

func (m *mirror) applyHint(h change[hint]) {
	if h.after == nil {
		return
	}
	id := endpoints.ID(h.after.EndpointID)
	if m.hints[id] == nil {
		m.hints[id] = map[string]*hint{}
	}
	if h.after.EndedAt.IsZero() {
		m.hints[id][h.after.Kind] = h.after
	} else if current := m.hints[id][h.after.Kind]; current != nil && current.ID == h.after.ID {
		delete(m.hints[id], h.after.Kind)
	}
}

func put[K comparable, T any](rows map[K]*T, c change[T], key func(*T) K) {
	if c.after == nil {
		delete(rows, key(c.before))
		return
	}
	rows[key(c.after)] = c.after
}
