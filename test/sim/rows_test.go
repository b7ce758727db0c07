package sim

import (
	"reflect"
	"time"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// instruments adds a log of changes and a gate to the schema. The log holds every row that a
// statement changes. The gate blocks a transaction at its commit: connections of one name pass only
// while it is open. A row of schedules is logged by the written part, also if the values are equal:
// columns of the run, columns of the plan, and due_at, which both share. Each change holds the
// changed columns that an index depends on, because an update without such columns is HOT.
const instruments = `
CREATE UNLOGGED TABLE sim_changes (
    seq bigint GENERATED ALWAYS AS IDENTITY, app text, tab text, old json, new json, indexed text
);
CREATE TABLE sim_indexed AS
SELECT DISTINCT a.attrelid::regclass::text AS tab, a.attname::text AS col
FROM pg_index i
         JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = i.indrelid
         JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE i.indrelid = 'schedules'::regclass;
CREATE FUNCTION sim_log() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text := '';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT coalesce(string_agg(col, ' ' ORDER BY col), '') INTO changed
        FROM sim_indexed WHERE tab = TG_TABLE_NAME AND to_jsonb(OLD) -> col IS DISTINCT FROM to_jsonb(NEW) -> col;
    END IF;
    INSERT INTO sim_changes (app, tab, old, new, indexed)
    VALUES (current_setting('application_name'), TG_ARGV[0],
            CASE WHEN TG_OP <> 'INSERT' THEN row_to_json(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN row_to_json(NEW) END, changed);
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
CREATE TRIGGER sim_log AFTER INSERT OR DELETE ON schedules FOR EACH ROW EXECUTE FUNCTION sim_log('schedules');
DO $$
BEGIN
    EXECUTE (SELECT format('CREATE TRIGGER sim_log_plan AFTER UPDATE OF %s ON schedules FOR EACH ROW EXECUTE FUNCTION sim_log(%L)',
                           string_agg(quote_ident(attname), ', '), 'schedules/plan')
             FROM pg_attribute
             WHERE attrelid = 'schedules'::regclass AND attnum > 0 AND NOT attisdropped
               AND attname NOT IN ('run_id', 'started_at', 'deadline_at', 'due_at', 'claimed_at')
               AND attname NOT LIKE 'cancel%');
END
$$;
CREATE TRIGGER sim_log_run AFTER UPDATE OF run_id, started_at, deadline_at ON schedules FOR EACH ROW EXECUTE FUNCTION sim_log('schedules/run');
CREATE TRIGGER sim_log_lock AFTER UPDATE OF due_at ON schedules FOR EACH ROW EXECUTE FUNCTION sim_log('schedules/lock');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION sim_log('runs');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON one_off_items FOR EACH ROW EXECUTE FUNCTION sim_log('one_off_items');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON hints FOR EACH ROW EXECUTE FUNCTION sim_log('hints');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON decisions FOR EACH ROW EXECUTE FUNCTION sim_log('decisions');
CREATE TRIGGER sim_log AFTER INSERT OR UPDATE OR DELETE ON workers FOR EACH ROW EXECUTE FUNCTION sim_log('workers');
CREATE CONSTRAINT TRIGGER sim_gate AFTER UPDATE OR DELETE ON schedules DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION sim_gate();
`

// row is a row of the table schedules.
type row struct {
	schedule

	RunID             *uuid.UUID `json:"run_id"`
	StartedAt         time.Time  `json:"started_at"`
	DeadlineAt        time.Time  `json:"deadline_at"`
	CancelRequestedAt time.Time  `json:"cancel_requested_at"`
	Archived          bool       `json:"archived"`
}

func (r *row) running() bool { return r != nil && r.RunID != nil }

// plan returns the planning part of a row, or nil if the row only waits for the end of its run.
// During a run, due_at is the end of its lock and not part of the plan.
func (r *row) plan() *schedule {
	if r == nil || r.Archived {
		return nil
	}
	s := r.schedule
	if r.running() {
		s.DueAt = time.Time{}
	}
	return &s
}

// live returns the run in flight of a row.
func (r *row) live() *liveRun {
	if !r.running() {
		return nil
	}
	l := &liveRun{
		EndpointID:   r.EndpointID,
		RunID:        *r.RunID,
		Slot:         r.Slot,
		Attempt:      r.Attempt,
		InfraAttempt: r.InfraAttempt,
		Source:       r.Source,
		Token:        r.Token,
		StartedAt:    r.StartedAt,
		DeadlineAt:   r.DeadlineAt,
		LockedUntil:  r.DueAt,
	}
	if r.ClaimedBy != nil {
		l.WorkerID = *r.ClaimedBy
	}
	return l
}

// split derives the effects of a row's change on its plan and on its run. The lock belongs to the
// run while one is in flight, otherwise to the plan. A statement that writes the lock and other
// columns of the same part makes one change of that part.
func (c *changes) split(written string, r change[row]) {
	plan := written == "schedules" || written == "schedules/plan"
	run := written == "schedules" || written == "schedules/run"
	if written == "schedules/lock" && r.before.running() == r.after.running() {
		run = r.after.running()
		plan = !run
	}
	if plan {
		c.schedules = part(c.schedules, change[schedule]{before: r.before.plan(), after: r.after.plan(), indexed: r.indexed})
	}
	if run {
		c.live = part(c.live, change[liveRun]{before: r.before.live(), after: r.after.live(), indexed: r.indexed})
	}
}

// part adds a change of an existing part, unless the same update is already logged.
func part[T any](list []change[T], one change[T]) []change[T] {
	if one.before == nil && one.after == nil {
		return list
	}
	if n := len(list); n > 0 && reflect.DeepEqual(list[n-1], one) {
		return list
	}
	return append(list, one)
}

// legalRows checks that no row is in a state outside the order of claim, start and end.
func (w *world) legalRows(c *changes) {
	w.t.Helper()
	for _, r := range c.rows {
		if r.after == nil {
			continue
		}
		id := endpoints.ID(r.after.EndpointID)
		running := r.after.running()
		w.ensure(!running || r.after.ClaimedBy != nil, "%s runs and is claimed by no worker", short(id))
		w.ensure(running || !r.after.Archived, "%s is archived, has no run and still has a row", short(id))
		w.ensure(running != r.after.StartedAt.IsZero() && running != r.after.DeadlineAt.IsZero(), "%s is half running", short(id))
		w.ensure(running || r.after.CancelRequestedAt.IsZero(), "a run of %s is to be canceled and there is none", short(id))
		if r.before.running() && running {
			w.ensure(*r.before.RunID == *r.after.RunID, "run %s took the place of another", runName(runs.ID(*r.after.RunID)))
		}
		if r.before != nil && r.before.Archived {
			before, after := r.before.schedule, r.after.schedule
			before.DueAt, after.DueAt = time.Time{}, time.Time{}
			w.ensure(reflect.DeepEqual(before, after), "the plan of %s changed, which is archived", short(id))
		}
	}
}
