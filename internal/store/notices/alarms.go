package notices

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// EpisodeChanges collects the episodes of notices that the runs of one transaction open or close.
type EpisodeChanges struct {
	opens  dbsqlc.NoticeOpenParams
	closes dbsqlc.NoticeCloseParams
}

// FinishedRun is a finished run and the state of its endpoint before the finish.
type FinishedRun struct {
	Run runs.Run
	// failures is the number of consecutive failures.
	Failures int
	// due is the due time that the run was started for, unless the endpoint was replanned during
	// the run.
	Due endpoints.Due
	// free is the end of the previous run, or zero. A run cannot start before, so it is not late
	// until then.
	Free time.Time
}

// Judge collects the episodes that a run opens or closes. It reads only the rule cache, so that
// runs without a matching rule cost no query.
func (a *EpisodeChanges) Judge(book *notices.RuleCache, e *endpoints.Endpoint, was FinishedRun) {
	a.failures(book, e, was)
	a.late(book, e, was)
	a.heldBack(book, e, was.Run)
	if e.GivenUp && book.Opens(e, notices.DeadLetter, 0, 1) {
		a.open(e.ID, notices.DeadLetter, 1, detailOf(was.Run))
	}
	switch lost := was.Run.Outcome.Status == runs.Lost; {
	case lost && book.Opens(e, notices.Lost, 0, 1):
		a.open(e.ID, notices.Lost, 1, detailOf(was.Run))
	case !lost && book.Open(e.ID, notices.Lost):
		a.close(e.ID, notices.Lost, 0)
	}
}

// GaveUp opens the episodes about a due time that a change gave up. It needs no rule cache, because
// the statement checks the rules and such changes are rare.
func (a *EpisodeChanges) GaveUp(e *endpoints.Endpoint, run runs.Run) {
	d := detailOf(run)
	if e.GivenUp {
		a.open(e.ID, notices.DeadLetter, 1, d)
	}
	if run.Outcome.CountsAsFailure() {
		d.Failures = e.State.FailureCount
		a.open(e.ID, notices.Failures, int64(d.Failures), d)
	}
}

func (a *EpisodeChanges) failures(book *notices.RuleCache, e *endpoints.Endpoint, was FinishedRun) {
	before, after := int64(was.Failures), int64(e.State.FailureCount)
	switch {
	case after > before && book.Opens(e, notices.Failures, before, after):
		d := detailOf(was.Run)
		d.Failures = e.State.FailureCount
		a.open(e.ID, notices.Failures, after, d)
	case after == 0 && before > 0 && book.Opens(e, notices.Failures, 0, before):
		a.close(e.ID, notices.Failures, 0)
	}
}

// heldBack opens paused episodes if the target asks for a long delay by Retry-After, because the
// endpoint is in effect paused.
func (a *EpisodeChanges) heldBack(book *notices.RuleCache, e *endpoints.Endpoint, run runs.Run) {
	if !history.FinishedOf(run).AsksForLong() || !book.Opens(e, notices.Paused, 0, 1) {
		return
	}
	d := detailOf(run)
	d.Reason = fmt.Sprintf("the target asked to wait until %s by Retry-After; the next run is at %s",
		run.Outcome.RetryAfter.UTC().Format(time.RFC3339), e.State.Due.At.UTC().Format(time.RFC3339))
	a.open(e.ID, notices.Paused, 1, d)
}

func (a *EpisodeChanges) late(book *notices.RuleCache, e *endpoints.Endpoint, was FinishedRun) {
	run := was.Run
	replanned := !was.Due.Slot.Equal(run.ScheduledFor) || was.Due.Attempt != run.Attempt ||
		was.Due.InfraAttempt != run.InfraAttempt // during the run
	if run.StartedAt.IsZero() || replanned {
		return
	}
	from := was.Due.At
	if was.Free.After(from) {
		from = was.Free
	}
	by := max(run.StartedAt.Sub(from).Milliseconds(), 0)
	if book.Opens(e, notices.Late, 0, by) {
		d := detailOf(run)
		d.LateMs = by
		a.open(e.ID, notices.Late, by, d)
	}
	if book.Open(e.ID, notices.Late) {
		a.close(e.ID, notices.Late, by)
	}
}

func detailOf(run runs.Run) notices.Detail {
	o := run.Outcome
	return notices.Detail{
		RunID:      run.ID.String(),
		Status:     string(o.Status),
		ReasonCode: string(o.Reason),
		StatusCode: o.StatusCode,
		Error:      pg.Storable(o.Error),
	}
}

func (a *EpisodeChanges) open(id [16]byte, event notices.Event, size int64, d notices.Detail) {
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // Texts and numbers always encode.
	}
	o := &a.opens
	o.Events, o.EndpointIds = append(o.Events, string(event)), append(o.EndpointIds, id)
	o.Sizes, o.Details = append(o.Sizes, size), append(o.Details, string(raw))
}

func (a *EpisodeChanges) close(id [16]byte, event notices.Event, size int64) {
	c := &a.closes
	c.Events, c.EndpointIds, c.Sizes = append(c.Events, string(event)), append(c.EndpointIds, id), append(c.Sizes, size)
}

// Writes returns the statements that open and close episodes. For almost every transaction there
// are none.
func (a *EpisodeChanges) Writes(ctx context.Context, db *pg.DB, now time.Time) []pg.Statement {
	var list []pg.Statement
	if len(a.opens.Events) > 0 {
		a.opens.Now = now
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.NoticeOpen(ctx, tx, a.opens) })
	}
	if len(a.closes.Events) > 0 {
		a.closes.Now = now
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.NoticeClose(ctx, tx, a.closes) })
	}
	return list
}

// write executes the statements of writes one by one.
func (a *EpisodeChanges) write(ctx context.Context, tx pgx.Tx, db *pg.DB, now time.Time) error {
	for _, s := range a.Writes(ctx, db, now) {
		if err := s(tx); err != nil {
			return fmt.Errorf("opening %d and closing %d episodes: %w", len(a.opens.Events), len(a.closes.Events), err)
		}
	}
	return nil
}

// Alarm is an event of an endpoint that no run causes.
type Alarm struct {
	EndpointID [16]byte
	Event      notices.Event
	Detail     notices.Detail
}

// Raise opens the episodes of an alarm, in the transaction of its event.
func Raise(ctx context.Context, tx pgx.Tx, db *pg.DB, now time.Time, alarm Alarm) error {
	var a EpisodeChanges
	a.open(alarm.EndpointID, alarm.Event, 1, alarm.Detail)
	return a.write(ctx, tx, db, now)
}

// RaisePaused opens the episodes of an automatic pause.
func RaisePaused(ctx context.Context, tx pgx.Tx, db *pg.DB, now time.Time, e *endpoints.Endpoint) error {
	return Raise(ctx, tx, db, now, Alarm{
		EndpointID: e.ID,
		Event:      notices.Paused,
		Detail:     notices.Detail{Reason: pg.Storable(e.State.PauseReason)},
	})
}
