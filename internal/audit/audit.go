// Package audit checks Rubato's guarantees against a database, and against the request log of a
// target.
//
// It does not rely on the programs or their metrics. It reads the history, the live runs, the
// schedules and the decisions in one read-only transaction, so that all rows are of one snapshot.
// The log of a target is optional; it is authoritative for requests. Each guarantee is an
// [Invariant]. The result is a [Report]: the number of checked cases per invariant, and every
// breach with its endpoint and run. The package writes nothing, therefore it may run on a database
// in use.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options sets the scope and the tolerances of an audit. Zero fields mean their defaults.
type Options struct {
	// Window is the span of history to read; default 24 h.
	Window time.Duration

	// Requests are the requests that targets received, in any order. If empty, guarantees about
	// requests are not checked.
	Requests []Request
	// Freezes are the known periods in which worker processes were stopped. Only a freeze excuses
	// an overlap, because a stopped worker cannot end its request.
	Freezes []Freeze

	// Early is the tolerance for early requests, because clocks differ; default 50 ms.
	Early time.Duration
	// Overdue is the maximum lateness of a due time without a live run; default 2 min.
	Overdue time.Duration
	// Settling is the time the sweeper has to settle a live run with an expired lock. The default
	// is 4 min, because the sweeper first observes for 180 s after an outage.
	Settling time.Duration
	// LockTTL is RUBATO_LOCK_TTL of the workers; default 60 s.
	LockTTL time.Duration

	// Quiet reports that everything was paused long enough for all runs to end, so that every live
	// run is a breach.
	Quiet bool
}

// Freeze is a period in which the process of a worker was stopped.
type Freeze struct {
	WorkerID [16]byte
	From, To time.Time
}

func (o Options) withDefaults() Options {
	o.Window = cmp.Or(o.Window, 24*time.Hour)
	o.Early = cmp.Or(o.Early, 50*time.Millisecond)
	o.Overdue = cmp.Or(o.Overdue, 2*time.Minute)
	o.Settling = cmp.Or(o.Settling, 4*time.Minute)
	o.LockTTL = cmp.Or(o.LockTTL, time.Minute)
	return o
}

// Run audits the database at url, a Postgres connection string. It returns an error only if it
// cannot read; breaches are in the report.
func Run(ctx context.Context, url string, o Options) (Report, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return Report{}, fmt.Errorf("connecting to the database: %w", err)
	}
	// An error of Close is harmless, because nothing was written.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	var s *state
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) (err error) {
		s, err = read(ctx, tx, o.withDefaults())
		return err
	})
	if err != nil {
		return Report{}, err
	}
	return s.judge(), nil
}

// judge runs all checks on the state.
func (s *state) judge() Report {
	a := &auditor{state: s, report: newReport(s.now, s.now.Add(-s.options.Window))}
	a.checkLive()
	a.checkSchedules()
	a.checkTwice()
	for _, e := range s.endpoints {
		a.checkFences(e)
		a.checkRuns(e)
		a.checkPauses(e)
		a.checkChain(e)
		a.checkSlots(e)
	}
	a.checkRequests()
	a.report.Lateness = percentiles(a.lateness)
	a.report.Counts.Settled = percentiles(a.settled)
	return a.report
}

// auditor builds a report. It belongs to one goroutine.
type auditor struct {
	*state
	report Report
	// lateness holds the lateness of starts with a known plan. Manual runs are left out, because
	// they wait for the live run.
	lateness []time.Duration
	// settled holds the time from start to settlement of each lost run.
	settled []time.Duration
}
