package store

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
)

// alarms collects the episodes of notices that the runs of one transaction open or close.
type alarms struct {
	opens  dbsqlc.NoticeOpenParams
	closes dbsqlc.NoticeCloseParams
}

// ended is a finished run and the state of its endpoint before the finish.
type ended struct {
	run runs.Run
	// failures is the number of consecutive failures.
	failures int
	// due is the due time that the run was started for, unless the endpoint was replanned during
	// the run.
	due endpoints.Due
	// free is the end of the previous run, or zero. A run cannot start before, so it is not late
	// until then.
	free time.Time
}

// judge collects the episodes that a run opens or closes. It reads only the rule cache, so that
// runs without a matching rule cost no query.
func (a *alarms) judge(book *notices.RuleCache, e *endpoints.Endpoint, was ended) {
	a.failures(book, e, was)
	a.late(book, e, was)
	a.heldBack(book, e, was.run)
	switch lost := was.run.Outcome.Status == runs.Lost; {
	case lost && book.Opens(e, notices.Lost, 0, 1):
		a.open(e.ID, notices.Lost, 1, detailOf(was.run))
	case !lost && book.Open(e.ID, notices.Lost):
		a.close(e.ID, notices.Lost, 0)
	}
}

func (a *alarms) failures(book *notices.RuleCache, e *endpoints.Endpoint, was ended) {
	before, after := int64(was.failures), int64(e.State.FailureCount)
	switch {
	case after > before && book.Opens(e, notices.Failures, before, after):
		d := detailOf(was.run)
		d.Failures = e.State.FailureCount
		a.open(e.ID, notices.Failures, after, d)
	case after == 0 && before > 0 && book.Opens(e, notices.Failures, 0, before):
		a.close(e.ID, notices.Failures, 0)
	}
}

// heldBack opens paused episodes if the target asks for a long delay by Retry-After, because the
// endpoint is in effect paused.
func (a *alarms) heldBack(book *notices.RuleCache, e *endpoints.Endpoint, run runs.Run) {
	if !finishedOf(run).AsksForLong() || !book.Opens(e, notices.Paused, 0, 1) {
		return
	}
	d := detailOf(run)
	d.Reason = fmt.Sprintf("the target asked to wait until %s by Retry-After; the next run is at %s",
		run.Outcome.RetryAfter.UTC().Format(time.RFC3339), e.State.Due.At.UTC().Format(time.RFC3339))
	a.open(e.ID, notices.Paused, 1, d)
}

func (a *alarms) late(book *notices.RuleCache, e *endpoints.Endpoint, was ended) {
	run := was.run
	replanned := !was.due.Slot.Equal(run.ScheduledFor) || was.due.Attempt != run.Attempt ||
		was.due.InfraAttempt != run.InfraAttempt // during the run
	if run.StartedAt.IsZero() || replanned {
		return
	}
	from := was.due.At
	if was.free.After(from) {
		from = was.free
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
		Error:      storable(o.Error),
	}
}

func (a *alarms) open(id [16]byte, event notices.Event, size int64, d notices.Detail) {
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // Texts and numbers always encode.
	}
	o := &a.opens
	o.Events, o.EndpointIds = append(o.Events, string(event)), append(o.EndpointIds, id)
	o.Sizes, o.Details = append(o.Sizes, size), append(o.Details, string(raw))
}

func (a *alarms) close(id [16]byte, event notices.Event, size int64) {
	c := &a.closes
	c.Events, c.EndpointIds, c.Sizes = append(c.Events, string(event)), append(c.EndpointIds, id), append(c.Sizes, size)
}

// writes returns the statements that open and close episodes. For almost every transaction there
// are none.
func (a *alarms) writes(ctx context.Context, db *DB, now time.Time) []statement {
	var list []statement
	if len(a.opens.Events) > 0 {
		a.opens.Now = now
		list = append(list, func(tx dbsqlc.DBTX) error { return db.q.NoticeOpen(ctx, tx, a.opens) })
	}
	if len(a.closes.Events) > 0 {
		a.closes.Now = now
		list = append(list, func(tx dbsqlc.DBTX) error { return db.q.NoticeClose(ctx, tx, a.closes) })
	}
	return list
}

// write executes the statements of writes one by one.
func (a *alarms) write(ctx context.Context, tx pgx.Tx, db *DB, now time.Time) error {
	for _, s := range a.writes(ctx, db, now) {
		if err := s(tx); err != nil {
			return fmt.Errorf("opening %d and closing %d episodes: %w", len(a.opens.Events), len(a.closes.Events), err)
		}
	}
	return nil
}

// alarm opens the episodes of an event that no run causes, in the transaction of the event.
func alarm(ctx context.Context, tx pgx.Tx, db *DB, now time.Time, id [16]byte, about notices.Event, d notices.Detail) error {
	var a alarms
	a.open(id, about, 1, d)
	return a.write(ctx, tx, db, now)
}

// pausedAlarm opens the episodes of an automatic pause.
func pausedAlarm(ctx context.Context, tx pgx.Tx, db *DB, now time.Time, e *endpoints.Endpoint) error {
	return alarm(ctx, tx, db, now, e.ID, notices.Paused, notices.Detail{Reason: storable(e.State.PauseReason)})
}
