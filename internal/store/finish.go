package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/dispatch"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// basis is what a start read of an endpoint, for its finish: the row as the start left it, and its hints.
type basis struct {
	row   *dbsqlc.Schedule
	hints []*dbsqlc.Hint
}

// errStale is the end of an optimistic finish: a row was changed during its run, or its configuration cannot be used.
var errStale = errors.New("a row was changed since its start")

// Finish implements dispatch.Executions. It is optimistic: it decides by what the starts read and writes by compare-and-set, in one round
// trip and a commit. If a row was changed during its run, the whole batch is rolled back, and decided again by locked rows.
func (s *Executions) Finish(ctx context.Context, f dispatch.Finish) (done dispatch.Finished, err error) {
	for _, run := range f.Runs {
		if err := runs.Running.CheckTransition(run.Outcome.Status); err != nil {
			return done, fmt.Errorf("record run %s: %w", run.ID, err)
		}
	}
	var skipped []time.Time
	days := func() []time.Time { return append(runDays(f.Runs), skipped...) }
	attempt := func(write func(context.Context, pgx.Tx, *batch) (dispatch.Finished, error)) error {
		return s.db.hotTx(ctx, func(tx pgx.Tx) (err error) {
			b := newBatch(s.db, f.Runs)
			defer b.release()
			b.worker, b.keep, b.lockTTL = f.Worker, f.Keep, f.LockTTL
			done, err = write(ctx, tx, b)
			skipped = daysOf(b.skipped)
			return err
		})
	}
	finish := func() error {
		if sorted, known := inOrder(f); known {
			optimistic := func(ctx context.Context, tx pgx.Tx, b *batch) (dispatch.Finished, error) {
				return s.finishRead(ctx, tx, b, sorted)
			}
			if err := attempt(optimistic); !stale(err) {
				return err
			}
		}
		return attempt(s.finishLocked)
	}
	err = s.db.isolated(len(f.Runs), func(fault error) error {
		if fault == nil {
			return s.db.withPartitions(ctx, days, finish)
		}
		return s.db.withPartitions(ctx, days, func() error {
			return attempt(func(ctx context.Context, tx pgx.Tx, b *batch) (dispatch.Finished, error) {
				b.fault = fault
				return s.finishLocked(ctx, tx, b)
			})
		})
	})
	return done, err
}

// isolated runs end, which ends so many runs. If it panics over a single one, it runs again with the fault:
// then it records the run and pauses the endpoint, and decides nothing. A panic over several is
// returned, because the caller tells them apart by ending them one by one.
func (db *DB) isolated(count int, end func(fault error) error) (err error) {
	panicked := db.contain(func() { err = end(nil) })
	switch {
	case panicked == nil:
		return err
	case count > 1:
		return panicked
	}
	if again := db.contain(func() { err = end(errPanicked) }); again != nil {
		return again
	}
	return err
}

// uniqueViolation is the SQLSTATE of a row that is there already.
const uniqueViolation = "23505"

// stale reports whether an optimistic finish ended because the rows are not what they were at the start. A run that is in the history
// already was settled, or recorded by an earlier attempt of the same finish.
func stale(err error) bool {
	refused, is := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errStale) || is && refused.Code == uniqueViolation
}

// inOrder returns a finish with its runs in the order of row locks. known is false where the rows of some have to be read, because what their
// starts read is missing or belongs to another run.
func inOrder(f dispatch.Finish) (sorted dispatch.Finish, known bool) {
	if f.Now.IsZero() || len(f.Bases) != len(f.Runs) || slices.Contains(f.Bases, nil) {
		return f, false
	}
	order := make([]int, len(f.Runs))
	for i := range order {
		row := f.Bases[i].(basis).row                                           //nolint:forcetypeassert // Nothing else makes one.
		if row.ManualAt != nil || row.Source == string(governor.SourceManual) { // A start does not read one-off items.
			return f, false
		}
		if runKeyOf(f.Runs[i]) != (runKey{row.EndpointID, *row.RunID, row.ClaimToken}) {
			return f, false
		}
		order[i] = i
		f.Runs[i].ClaimedAt = *row.ClaimedAt
	}
	slices.SortFunc(order, func(i, j int) int { return bytes.Compare(f.Runs[i].EndpointID[:], f.Runs[j].EndpointID[:]) })
	sorted = f
	sorted.Runs, sorted.Bases = make([]runs.Run, len(order)), make([]dispatch.Basis, len(order))
	for n, i := range order {
		sorted.Runs[n], sorted.Bases[n] = f.Runs[i], f.Bases[i]
		if n > 0 && sorted.Runs[n].EndpointID == sorted.Runs[n-1].EndpointID { // One of them is void.
			return f, false
		}
	}
	return sorted, true
}

// finishRead writes a batch by what its starts read. It returns errStale where that does not hold any more.
func (s *Executions) finishRead(ctx context.Context, tx pgx.Tx, b *batch, f dispatch.Finish) (dispatch.Finished, error) {
	b.optimistic, b.runs, b.now = true, f.Runs, wholeMillisecond(f.Now)
	for _, was := range f.Bases {
		read := was.(basis) //nolint:forcetypeassert // Nothing else makes one.
		b.schedules, b.hints = append(b.schedules, read.row), append(b.hints, read.hints...)
	}
	if err := b.settle(ctx, tx); err != nil {
		return dispatch.Finished{}, err
	}
	return dispatch.Finished{Kept: b.kept, Decided: b.decided, Skipped: b.skipped}, nil
}

// wholeMillisecond returns the instant of a decision, as DecisionTime does.
func wholeMillisecond(at time.Time) time.Time {
	return at.Add(time.Millisecond - time.Microsecond).Truncate(time.Millisecond)
}

// finishLocked locks the rows of a batch, reads what their settlement needs and writes it.
func (s *Executions) finishLocked(ctx context.Context, tx pgx.Tx, b *batch) (done dispatch.Finished, err error) {
	gone, err := s.end(ctx, tx, b)
	if err != nil {
		return done, err
	}
	if err := b.settle(ctx, tx); err != nil {
		return done, err
	}
	done = dispatch.Finished{Kept: b.kept, Decided: b.decided, Skipped: b.skipped}
	return done, s.recall(ctx, tx, gone, &done)
}

// end locks the rows of runs and reads what their settlement needs, in one round trip. Runs that are still the caller's to finish are in
// the batch afterwards, with the instant of their claim; the others, which were settled, come back.
func (s *Executions) end(ctx context.Context, tx pgx.Tx, b *batch) (gone []runs.Run, err error) {
	list := b.runs
	ids := make([][16]byte, len(list))
	for i, run := range list {
		ids[i] = run.EndpointID
	}
	var now time.Time
	clock := func(q dbsqlc.DBTX) (err error) {
		now, err = s.db.q.Clock(ctx, q, s.db.now())
		return err
	}
	if err := pipeline(ctx, tx, append(b.reads(ctx, ids), clock)...); err != nil {
		return nil, fmt.Errorf("locking the rows of %d runs: %w", len(list), err)
	}
	for _, row := range b.schedules {
		if row.RunID != nil {
			b.running[runKey{row.EndpointID, *row.RunID, row.ClaimToken}] = row
		}
	}
	for i := range list {
		row := b.running[runKeyOf(list[i])]
		if row == nil {
			gone = append(gone, list[i])
			continue
		}
		list[i].ClaimedAt = *row.ClaimedAt
		bySameClock(&list[i], *row.StartedAt, now)
	}
	if len(gone) > 0 {
		b.runs = slices.DeleteFunc(slices.Clone(list), func(run runs.Run) bool { return b.running[runKeyOf(run)] == nil })
	}
	return gone, nil
}

// runKey names a running run by its row and fence.
type runKey struct {
	endpoint, run [16]byte
	token         int64
}

func runKeyOf(run runs.Run) runKey { return runKey{run.EndpointID, run.ID, run.ClaimToken} }

// bySameClock moves the start and the end that a worker reports to where the database's clock allows them: not before the start of the
// row, and not after the statement that locked it. A worker counts both on its own monotonic clock, and a slewed clock would let a run
// end after the start of the next one. An optimistic finish is refused instead: see ScheduleFinish.
func bySameClock(run *runs.Run, started, now time.Time) {
	for _, at := range []*time.Time{&run.StartedAt, &run.FinishedAt} {
		if at.After(now) {
			*at = now
		}
		if at.Before(started) { // The database's clock was set back since.
			*at = started
		}
	}
}
