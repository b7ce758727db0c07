// Package replay makes the decisions of a database again and compares them with the recorded ones.
//
// The ledger of an endpoint is its versions, the decisions of its changes and its finished runs. A
// decision is a pure function of the state that the decision before left, of the run or the change,
// and of the recorded instant. Therefore the shipped code with time as an argument must give each
// recorded decision again, bit for bit. A difference means that the program decided otherwise than
// this one would, or that a row was changed.
//
// Everything is read in one read-only transaction, so that all rows are of one snapshot. The
// entries of one endpoint are streamed in the order of their claim tokens. The package writes
// nothing, therefore it may run on a database in use or on a hot standby.
package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
)

// Options selects the decisions to make again.
type Options struct {
	// From is the begin of the span. The replay of an endpoint starts at the last state on record
	// before it, which is at most one day of runs earlier.
	From time.Time
	// To is the end of the span; zero: the last decision. Without an end the last state of each
	// endpoint is compared with its schedule too.
	To time.Time
	// Endpoint limits the replay to one endpoint; zero: every endpoint.
	Endpoint endpoints.ID

	rules rules
}

// rules are the functions that decide. Tests replace them by variants.
type rules struct {
	afterRun func(e *endpoints.Endpoint, now time.Time, run endpoints.Finished) (endpoints.Recorded, error)
	redecide func(e *endpoints.Endpoint, now time.Time, before *endpoints.Endpoint, cause endpoints.Cause) (endpoints.Recorded, error)
	detach   func(e *endpoints.Endpoint, now, started time.Time) (endpoints.Recorded, error)
}

// shipped are the rules of this program.
func shipped() rules {
	return rules{
		afterRun: (*endpoints.Endpoint).AfterRun,
		redecide: (*endpoints.Endpoint).Redecide,
		detach:   (*endpoints.Endpoint).Detach,
	}
}

// Report is the result of a replay.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Endpoints is the number of endpoints with a decision or a schedule that was compared.
	Endpoints int `json:"endpoints"`
	// Runs and Changes are the numbers of decisions after runs and after changes.
	Runs    int `json:"runs"`
	Changes int `json:"changes"`
	// Late lists endpoints whose ledger begins after From, because retention removed its begin.
	Late []Late `json:"late"`
	// Difference is the first one; nil: there is none.
	Difference *Difference `json:"difference"`
}

// Late is an endpoint whose ledger begins late.
type Late struct {
	EndpointID string `json:"endpointId"`
	// Since is the first decision that was compared; zero: none could be.
	Since time.Time `json:"since,omitzero"`
}

// Difference is a recorded value that the rules do not give again.
type Difference struct {
	EndpointID string `json:"endpointId"`
	// RunID is the run after which the decision was made; empty: it was made after a change.
	RunID string `json:"runId,omitempty"`
	// DecisionID is the row of the decision of a change.
	DecisionID int64 `json:"decisionId,omitempty"`
	// Cause is that of the decision; "schedule" for the state in force.
	Cause string    `json:"cause"`
	At    time.Time `json:"at"`
	// Field is the path of the value, such as nextRunAt or state.tempo.
	Field      string `json:"field"`
	Recorded   string `json:"recorded"`
	Recomputed string `json:"recomputed"`
}

// Run replays the database at url, a Postgres connection string. The error says that it cannot
// read; a difference is in the report.
func Run(ctx context.Context, url string, o Options) (report Report, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return report, fmt.Errorf("connecting to the database: %w", err)
	}
	// An error of Close is harmless, because nothing was written.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if o.rules.afterRun == nil {
		o.rules = shipped()
	}
	report = Report{
		From: o.From.UTC(),
		To:   o.To.UTC(),
		Late: []Late{},
	}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error {
		return replayAll(ctx, tx, o, &report)
	})
	return report, err
}

// replayAll replays the endpoints page by page, until the first difference.
func replayAll(ctx context.Context, tx pgx.Tx, o Options, report *Report) error {
	if o.To.IsZero() {
		if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&report.To); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		report.To = report.To.UTC()
	}
	list := []endpoints.ID{o.Endpoint}
	if o.Endpoint == (endpoints.ID{}) {
		var err error
		if list, err = page(ctx, tx, endpoints.ID{}, o.To); err != nil {
			return err
		}
	}
	for len(list) > 0 {
		for _, id := range list {
			if err := replayOne(ctx, tx, o, id, report); err != nil {
				return fmt.Errorf("replaying endpoint %s: %w", id, err)
			}
			if report.Difference != nil {
				return nil
			}
		}
		if o.Endpoint != (endpoints.ID{}) {
			return nil
		}
		var err error
		if list, err = page(ctx, tx, list[len(list)-1], o.To); err != nil {
			return err
		}
	}
	return nil
}

// replayOne replays one endpoint.
func replayOne(ctx context.Context, tx pgx.Tx, o Options, id endpoints.ID, report *Report) error {
	t, err := newTrack(ctx, tx, o, id)
	if err != nil {
		return err
	}
	begin, err := beginning(ctx, tx, id, o.From)
	if err != nil {
		return fmt.Errorf("looking for the last state before %s: %w", o.From.Format(time.RFC3339), err)
	}
	if begin == nil {
		report.Late = append(report.Late, Late{EndpointID: id.String()})
		return nil
	}
	err = entries(ctx, tx, id, begin.token, func(row *entry) (more bool, err error) {
		if !o.To.IsZero() && row.at.After(o.To) {
			return false, nil
		}
		report.Difference, err = t.step(row)
		return err == nil && report.Difference == nil, err
	})
	report.Runs += t.runs
	report.Changes += t.changes
	report.Endpoints++
	if begin.late {
		report.Late = append(report.Late, Late{EndpointID: id.String(), Since: t.since})
	}
	if err != nil || report.Difference != nil || !o.To.IsZero() {
		return err
	}
	report.Difference, err = t.finally(ctx, tx)
	return err
}
