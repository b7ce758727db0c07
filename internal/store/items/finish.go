package items

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
	"rubato/internal/spending"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// basis is what a start read about an endpoint, kept for its finish: the row after the start, and
// the hints.
type basis struct {
	row   *dbsqlc.Schedule
	hints []*dbsqlc.Hint
}

// errStale reports that a batch needs locked rows and a transaction, for example because the
// configuration of an endpoint is unusable.
var errStale = errors.New("the batch cannot be finished without locked rows")

// Finish implements dispatch.Executions. It first tries an optimistic finish: it decides by the
// rows that the starts read and writes by compare-and-set, in one round trip. If a row changed
// during its run, the pipeline is rolled back and the batch is decided again with locked rows.
func (s *Executions) Finish(ctx context.Context, f dispatch.Finish) (done dispatch.Finished, err error) {
	for _, run := range f.Runs {
		if err := runs.Running.CheckTransition(run.Outcome.Status); err != nil {
			return done, fmt.Errorf("record run %s: %w", run.ID, err)
		}
	}
	var skipped []time.Time
	var spent []spending.Key
	days := func() []time.Time { return append(history.RunDays(f.Runs), skipped...) }
	attempt := func(tx pgx.Tx, write func(context.Context, *batch) (dispatch.Finished, error)) (err error) {
		b := newBatch(s.db, tx, f.Runs)
		defer b.release()
		b.worker, b.keep, b.lockTTL = f.Worker, f.Keep, f.LockTTL
		done, err = write(ctx, b)
		skipped, spent = history.DaysOf(b.skipped), b.spent
		return err
	}
	locked := func(fault error) error {
		return s.db.HotTx(ctx, func(tx pgx.Tx) error {
			return attempt(tx, func(ctx context.Context, b *batch) (dispatch.Finished, error) {
				b.fault = fault
				return s.finishLocked(ctx, b)
			})
		})
	}
	finish := func() error {
		if sorted, known := inOrder(f); known {
			optimistic := func(ctx context.Context, b *batch) (dispatch.Finished, error) { return finishRead(ctx, b, sorted) }
			if err := attempt(nil, optimistic); !stale(err) {
				return pg.Translate(err)
			}
		}
		return locked(nil)
	}
	err = isolated(s.db, len(f.Runs), func(fault error) error {
		if fault == nil {
			return s.db.WithPartitions(ctx, days, finish)
		}
		return s.db.WithPartitions(ctx, days, func() error { return locked(fault) })
	})
	if err == nil {
		for _, key := range spent {
			s.db.Spent.Add(key, 1)
		}
	}
	return done, err
}

// isolated runs end, which finishes count runs. If it panics over a single run, end is called again
// with the fault. It then records the run, quarantines the endpoint and makes no decision. A panic
// over several runs is returned, so that the caller retries them one by one and isolates the faulty
// one.
func isolated(db *endpointstore.States, count int, end func(fault error) error) (err error) {
	panicked := db.Contain(func() { err = end(nil) })
	switch {
	case panicked == nil:
		return err
	case count > 1:
		return panicked
	}
	if again := db.Contain(func() { err = end(endpointstore.ErrPanicked) }); again != nil {
		return again
	}
	return err
}

const (
	// uniqueViolation is the SQLSTATE of a duplicate key.
	uniqueViolation = "23505"
	// serializationFailure is the SQLSTATE of the function require_changed.
	serializationFailure = "40001"
)

// stale reports whether an optimistic finish met a conflict. A run that is already in the history
// is one: the sweeper settled it, or an earlier attempt of the same finish committed.
func stale(err error) bool {
	refused, is := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errStale) || is && (refused.Code == uniqueViolation || refused.Code == serializationFailure)
}

// inOrder returns a finish with its runs in lock order. known is false if an optimistic finish is
// impossible, because the basis of a run is missing or belongs to another run.
func inOrder(f dispatch.Finish) (sorted dispatch.Finish, known bool) {
	if f.Now.IsZero() || len(f.Bases) != len(f.Runs) || slices.Contains(f.Bases, nil) {
		return f, false
	}
	order := make([]int, len(f.Runs))
	for i := range order {
		row := f.Bases[i].(basis).row //nolint:forcetypeassert // The only implementation.
		// Starts read neither one-off items nor the endpoint of a detached run.
		if row.OwnerID != nil || row.ManualAt != nil || row.Source == string(governor.SourceManual) {
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
		// Only one run of an endpoint can be live.
		if n > 0 && sorted.Runs[n].EndpointID == sorted.Runs[n-1].EndpointID {
			return f, false
		}
	}
	return sorted, true
}

// finishRead finishes a batch by the rows that its starts read, without locks. On a conflict it
// returns an error for which stale is true.
func finishRead(ctx context.Context, b *batch, f dispatch.Finish) (dispatch.Finished, error) {
	b.runs, b.now = f.Runs, wholeMillisecond(f.Now)
	for _, was := range f.Bases {
		read := was.(basis) //nolint:forcetypeassert // The only implementation.
		b.Schedules, b.Hints = append(b.Schedules, read.row), append(b.Hints, read.hints...)
	}
	if err := b.settle(ctx); err != nil {
		return dispatch.Finished{}, err
	}
	return dispatch.Finished{
		Kept:    b.kept,
		Decided: b.decided,
		Skipped: b.skipped,
	}, nil
}

// wholeMillisecond rounds up to a millisecond, as the query DecisionTime does.
func wholeMillisecond(at time.Time) time.Time {
	return at.Add(time.Millisecond - time.Microsecond).Truncate(time.Millisecond)
}

// finishLocked finishes a batch with locked rows.
func (s *Executions) finishLocked(ctx context.Context, b *batch) (done dispatch.Finished, err error) {
	gone, err := s.end(ctx, b)
	if err != nil {
		return done, err
	}
	if err := b.settle(ctx); err != nil {
		return done, err
	}
	done = dispatch.Finished{
		Kept:    b.kept,
		Decided: b.decided,
		Skipped: b.skipped,
	}
	return done, s.classifyNotLive(ctx, b.tx, gone, &done)
}

// end locks the rows of runs and reads the inputs of their decisions, in one round trip. Afterwards
// the batch holds the runs with a valid fence token, and their claim times. The other runs, which
// were settled meanwhile, are returned.
func (s *Executions) end(ctx context.Context, b *batch) (gone []runs.Run, err error) {
	list := b.runs
	ids := make([][16]byte, 0, len(list))
	for _, run := range list {
		ids = append(ids, rowsOf(run)...)
	}
	var now time.Time
	clock := func(q dbsqlc.DBTX) (err error) {
		now, err = s.db.Q.Clock(ctx, q, s.db.Now())
		return err
	}
	if err := pg.Pipeline(ctx, b.tx, append(b.reads(ctx, ids), clock)...); err != nil {
		return nil, fmt.Errorf("locking the rows of %d runs: %w", len(list), err)
	}
	for _, row := range b.Schedules {
		if row.RunID != nil && *row.ClaimedBy != history.SuspendedHolder { // No worker ends a suspended run.
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
		clampToClock(&list[i], *row.StartedAt, now)
	}
	if len(gone) > 0 {
		b.runs = slices.DeleteFunc(slices.Clone(list), func(run runs.Run) bool { return b.running[runKeyOf(run)] == nil })
	}
	return gone, nil
}

// runKey identifies a live run by its row and fence token.
type runKey struct {
	row, run [16]byte
	token    int64
}

func runKeyOf(run runs.Run) runKey { return runKey{run.RowID(), run.ID, run.ClaimToken} }

// clampToClock clamps the start and end that a worker reports to the database's clock: not before
// the start of the row, and not after the statement that locked it. A worker measures both by its
// monotonic clock. Without the clamp, a slewed clock could let a run end after the next run starts.
// An optimistic finish is refused instead: see ScheduleFinish.
func clampToClock(run *runs.Run, started, now time.Time) {
	for _, at := range []*time.Time{&run.StartedAt, &run.FinishedAt} {
		if at.After(now) {
			*at = now
		}
		if at.Before(started) { // The database's clock was set back meanwhile.
			*at = started
		}
	}
}
