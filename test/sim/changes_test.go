package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

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
		InfraAttempt int        `json:"infra_attempt"`
		LastInfra    int        `json:"last_infra_attempt"`
		Source       string     `json:"source"`
		Anchor       time.Time  `json:"anchor"`
		FailureCount int        `json:"failure_count"`
		PausedUntil  time.Time  `json:"paused_until"`
		ManualAt     time.Time  `json:"manual_at"`
		RetryAfter   time.Time  `json:"retry_after"`
		TargetNext   time.Time  `json:"target_next"`
		FreshUntil   time.Time  `json:"fresh_until"`
		LastSlot     time.Time  `json:"last_slot"`
		LastCall     time.Time  `json:"last_call_at"`
		LastFinished time.Time  `json:"last_finished_at"`
		Accounted    time.Time  `json:"accounted_until"`
	}
	liveRun struct { // the run in flight of the same row
		EndpointID   uuid.UUID
		RunID        uuid.UUID
		Slot         time.Time
		Attempt      int
		InfraAttempt int
		Source       string
		Token        int64
		WorkerID     uuid.UUID
		StartedAt    time.Time
		DeadlineAt   time.Time
		LockedUntil  time.Time
	}
	pastRun struct {
		ID           uuid.UUID       `json:"id"`
		EndpointID   uuid.UUID       `json:"endpoint_id"`
		Slot         time.Time       `json:"scheduled_for"`
		Attempt      int             `json:"attempt"`
		InfraAttempt int             `json:"infra_attempt"`
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

// change is the effect of a statement on one row. Before is nil for an insert, after for a delete.
type change[T any] struct {
	before, after *T
	// indexed names the changed columns that an index depends on; for rows of schedules only.
	indexed string
}

// changes holds the effects of one call by table, in order. A row of schedules has two parts that
// are judged separately: the plan and the run in flight.
type changes struct {
	rows      []change[row]
	schedules []change[schedule]
	live      []change[liveRun]
	history   []change[pastRun]
	skips     []*pastRun // rows of the same table that record skips
	hints     []change[hint]
	decisions []change[decision]
	workers   []change[workerRow]
	oneOffs   []change[oneOff]
}

// drain reads the changes since the last call, by the name of the connection.
func (b *bench) drain() (map[string]*changes, error) {
	rows, err := b.conn.Query(b.world.ctx, "SELECT seq, app, tab, old::text, new::text, indexed FROM sim_changes WHERE seq > $1 ORDER BY seq", b.seen)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]*changes{freeName: {}, heldName: {}}
	for rows.Next() {
		var app, table, indexed string
		var before, after *string
		if err := rows.Scan(&b.seen, &app, &table, &before, &after, &indexed); err != nil {
			return nil, err
		}
		if err := found[app].add(table, before, after, indexed); err != nil {
			return nil, err
		}
	}
	return found, rows.Err()
}

func (c *changes) add(table string, before, after *string, indexed string) error {
	switch table {
	case "schedules", "schedules/plan", "schedules/run", "schedules/lock":
		if err := decode(&c.rows, before, after); err != nil {
			return err
		}
		last := &c.rows[len(c.rows)-1]
		last.indexed = indexed
		c.split(table, *last)
		return nil
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
	case "one_off_items":
		return decode(&c.oneOffs, before, after)
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
		return nil, nil //nolint:nilnil // The row may be missing.
	}
	row := new(T)
	if err := json.Unmarshal([]byte(*text), row); err != nil {
		return nil, fmt.Errorf("reading a logged row: %w", err)
	}
	return row, nil
}

// mirror is the state of the database, derived from the log of changes.
type mirror struct {
	schedules map[endpoints.ID]*schedule
	live      map[endpoints.ID]*liveRun
	history   map[runs.ID]*pastRun
	hints     map[endpoints.ID]map[string]*hint // in force, by kind
	ledger    map[endpoints.ID]ledger
	workers   map[uuid.UUID]*workerRow
	oneOffs   map[slotKey]*oneOff
	started   map[endpoints.ID]*liveRun  // the last start
	called    map[endpoints.ID]time.Time // the start of the last run that was not skipped
	succeeded map[slotKey]runs.ID
	skipped   map[endpoints.ID][]*pastRun // in recording order
	born      map[endpoints.ID]time.Time
}

type slotKey struct {
	endpoint endpoints.ID
	slot     int64
}

// ledger is the last decision about an endpoint.
type ledger struct {
	at     time.Time
	source string
}

func newMirror() *mirror {
	return &mirror{
		schedules: map[endpoints.ID]*schedule{}, live: map[endpoints.ID]*liveRun{}, history: map[runs.ID]*pastRun{},
		hints: map[endpoints.ID]map[string]*hint{}, ledger: map[endpoints.ID]ledger{}, workers: map[uuid.UUID]*workerRow{},
		oneOffs: map[slotKey]*oneOff{}, started: map[endpoints.ID]*liveRun{}, called: map[endpoints.ID]time.Time{}, succeeded: map[slotKey]runs.ID{},
		skipped: map[endpoints.ID][]*pastRun{}, born: map[endpoints.ID]time.Time{},
	}
}

// apply applies the changes of a call to the mirror.
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
		if r.after != nil && r.after.Attempt > 0 && r.after.Status != runs.Skipped {
			m.called[endpoints.ID(r.after.EndpointID)] = r.after.StartedAt
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
	for _, o := range c.oneOffs {
		put(m.oneOffs, o, (*oneOff).key)
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
