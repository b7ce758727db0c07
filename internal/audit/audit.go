// Package audit checks what Rubato promises against what a database says happened, and against what a target saw.
//
// It believes neither the programs nor their metrics. The history, the live runs, the schedules and the ledger of decisions are read
// in one read-only transaction that sees one state; a target's own log, where there is one, is the truth about requests. Every
// promise that can be checked that way is one [Invariant], and the result is a [Report]: what was checked how often, and every
// breach with the endpoint and the run that show it. Nothing is written, so it may run on a database in use.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say what to audit and how much delay is no breach. Zero fields mean their defaults.
type Options struct {
	Window time.Duration // how far back the history is read; default 24 h

	// Requests is what targets saw, in any order; none means that promises about requests are not checked.
	Requests []Request
	// Freezes are the times at which worker processes are known to have stood still: the only excuse of an overlap.
	Freezes []Freeze

	Early    time.Duration // how early a request may seem by two clocks; default 50 ms
	Overdue  time.Duration // how late a due time may be while nothing runs; default 2 min
	Settling time.Duration // how long the sweeper may leave a live run whose lock is over; default 4 min, for 180 s of watching after an outage
	LockTTL  time.Duration // RUBATO_LOCK_TTL of the workers; default 60 s

	// Quiet says that everything was paused and has had the time to end: whatever runs now was left behind.
	Quiet bool
}

// Freeze is a time in which a worker's process did not run.
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

// Run audits the database at url, a connection string of Postgres. The error is about reading alone: breaches are in the report.
func Run(ctx context.Context, url string, o Options) (Report, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return Report{}, fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // Nothing was written; how the connection ends does not matter.

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

// judge checks everything that was read.
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

// auditor is a report in the making.
type auditor struct {
	*state
	report   Report
	lateness []time.Duration // of every start whose plan is known, and which nobody asked for by hand
	settled  []time.Duration // from start to settlement of every lost run
}
