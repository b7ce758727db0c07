package history

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Runs reads live runs and history. It implements runs.Reader.
type Runs struct {
	db *pg.DB
}

var _ runs.Reader = (*Runs)(nil)

// NewRuns returns the reader of runs.
func NewRuns(db *pg.DB) *Runs { return &Runs{db: db} }

// List implements runs.Reader.
func (s *Runs) List(ctx context.Context, f runs.Filter) (list []runs.Run, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		if len(f.Statuses) == 0 || slices.Contains(f.Statuses, runs.Running) {
			if list, err = s.live(ctx, tx, f); err != nil {
				return err
			}
		}
		if len(f.Statuses) == 0 || slices.Contains(f.Statuses, runs.Waiting) {
			waiting, err := s.waiting(ctx, tx, f)
			if err != nil {
				return err
			}
			list = append(list, waiting...)
		}
		for _, status := range endsOf(f) {
			finished, err := s.finished(ctx, tx, f, status)
			if err != nil {
				return err
			}
			list = append(list, finished...)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b runs.Run) int { return -cmp.Compare(string(a.ID[:]), string(b.ID[:])) })
	return list[:min(len(list), f.Limit)], err
}

// endsOf returns the final statuses that a filter selects, or one empty status for all. Each status
// is a query of its own, because an index returns the runs of one status in list order but not
// those of several.
func endsOf(f runs.Filter) []runs.Status {
	if len(f.Statuses) == 0 {
		return []runs.Status{""}
	}
	ends := slices.DeleteFunc(slices.Clone(f.Statuses), func(s runs.Status) bool { return !s.Terminal() })
	slices.Sort(ends)
	return slices.Compact(ends)
}

func (s *Runs) live(ctx context.Context, tx pgx.Tx, f runs.Filter) ([]runs.Run, error) {
	rows, err := s.db.Q.RunListLive(ctx, tx, dbsqlc.RunListLiveParams{
		TenantID:   f.TenantID,
		EndpointID: pg.Given(f.EndpointID),
		Before:     pg.Given(f.Before),
		FromAt:     pg.Optional(f.From),
		ToAt:       pg.Optional(f.To),
		MaxRows:    int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing live runs: %w", err)
	}
	list := make([]runs.Run, len(rows))
	for i, row := range rows {
		list[i] = LiveRunOf(row)
	}
	return list, nil
}

// waiting returns unstarted one-off runs.
func (s *Runs) waiting(ctx context.Context, tx pgx.Tx, f runs.Filter) ([]runs.Run, error) {
	rows, err := s.db.Q.OneOffListWaiting(ctx, tx, dbsqlc.OneOffListWaitingParams{
		TenantID:   f.TenantID,
		EndpointID: pg.Given(f.EndpointID),
		Before:     pg.Given(f.Before),
		FromAt:     pg.Optional(f.From),
		ToAt:       pg.Optional(f.To),
		MaxRows:    int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing waiting one-off runs: %w", err)
	}
	list := make([]runs.Run, len(rows))
	for i, row := range rows {
		list[i] = waitingRunOf(row)
	}
	return list, nil
}

// finished returns finished runs, of one status if one is given.
func (s *Runs) finished(ctx context.Context, tx pgx.Tx, f runs.Filter, status runs.Status) ([]runs.Run, error) {
	to := f.To
	if f.Before != (runs.ID{}) { // Run IDs ascend with the due time, so later days are not read.
		if end := f.Before.Slot().Add(time.Millisecond); to.IsZero() || end.Before(to) {
			to = end
		}
	}
	rows, err := s.db.Q.RunList(ctx, tx, dbsqlc.RunListParams{
		TenantID:   f.TenantID,
		EndpointID: pg.Given(f.EndpointID),
		Status:     pg.OptionalText(string(status)),
		Before:     pg.Given(f.Before),
		FromAt:     pg.Optional(f.From),
		ToAt:       pg.Optional(to),
		MaxRows:    int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	list := make([]runs.Run, len(rows))
	for i, row := range rows {
		list[i] = RunOf(row)
	}
	return list, nil
}

// Get implements runs.Reader.
func (s *Runs) Get(ctx context.Context, tenant [16]byte, id runs.ID) (run runs.Run, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if run, err = s.get(ctx, tx, tenant, id); err != nil || !run.Outcome.Status.Terminal() {
			return err
		}
		return AddBody(ctx, tx, s.db, &run)
	})
	return run, err
}

// AddBody reads the body of the response to a finished run. It may be gone, because no body was
// captured or its retention has passed.
func AddBody(ctx context.Context, q dbsqlc.DBTX, db *pg.DB, run *runs.Run) error {
	body, err := db.Q.RunBodyGet(ctx, q, dbsqlc.RunBodyGetParams{RunID: run.ID, ScheduledFor: run.ScheduledFor})
	if pg.IsMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the response to run %s: %w", run.ID, err)
	}
	run.Outcome.Body, run.Outcome.Tail, run.Outcome.ContentType = body.Body, body.Tail, body.ContentType
	return nil
}

// Finished reads a finished run without its body. found is false if the history has no such run,
// for example because its retention has passed.
func Finished(ctx context.Context, q dbsqlc.DBTX, db *pg.DB, tenant [16]byte, id runs.ID) (run runs.Run, found bool, err error) {
	row, err := db.Q.RunGet(ctx, q, dbsqlc.RunGetParams{
		ID:           id,
		ScheduledFor: id.Slot(),
		TenantID:     tenant,
	})
	switch {
	case pg.IsMissing(err):
		return run, false, nil
	case err != nil:
		return run, false, fmt.Errorf("reading run %s: %w", id, err)
	}
	return RunOf(row), true, nil
}

// get reads one waiting, live or finished run without its body.
func (s *Runs) get(ctx context.Context, tx pgx.Tx, tenant [16]byte, id runs.ID) (runs.Run, error) {
	if run, found, err := Finished(ctx, tx, s.db, tenant, id); err != nil || found {
		return run, err
	}
	live, err := s.db.Q.RunGetLive(ctx, tx, dbsqlc.RunGetLiveParams{RunID: id, TenantID: tenant})
	if err == nil {
		return LiveRunOf(live), nil
	}
	if !pg.IsMissing(err) {
		return runs.Run{}, fmt.Errorf("reading live run %s: %w", id, err)
	}
	waiting, err := s.db.Q.OneOffListWaiting(ctx, tx, dbsqlc.OneOffListWaitingParams{
		TenantID: tenant,
		RunID:    pg.Given(id),
		MaxRows:  1,
	})
	if err != nil {
		return runs.Run{}, fmt.Errorf("reading one-off run %s: %w", id, err)
	}
	if len(waiting) == 0 {
		return runs.Run{}, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no run %s", id))
	}
	return waitingRunOf(waiting[0]), nil
}

// RunOf returns the run of a row of the history.
func RunOf(row *dbsqlc.Run) runs.Run {
	run := runs.Run{
		ID:           row.ID,
		EndpointID:   row.EndpointID,
		TenantID:     row.TenantID,
		ScheduledFor: row.ScheduledFor,
		Attempt:      int(row.Attempt),
		InfraAttempt: int(row.InfraAttempt),
		Source:       row.Source,
		ClaimToken:   row.ClaimToken,
		WorkerID:     row.WorkerID,
		ClaimedAt:    row.ClaimedAt,
		StartedAt:    row.StartedAt,
		FinishedAt:   row.FinishedAt,
		Outcome: runs.Outcome{
			Status:     runs.Status(row.Status),
			Reason:     runs.Reason(row.ReasonCode),
			StatusCode: int(pg.OrZero(row.StatusCode)),
			Phases: runs.Phases{
				DNS:      us(row.DnsUs),
				Connect:  us(row.ConnectUs),
				TLS:      us(row.TlsUs),
				Wait:     us(row.WaitUs),
				Transfer: us(row.TransferUs),
			},
			ResponseBytes: row.ResponseBytes,
			Truncated:     row.Truncated,
			Error:         pg.OrZero(row.Error),
			BodyDigest:    Digest(row.BodyDigest),
		},
		Decision: runs.Decision{
			NextRunAt: pg.OrZero(row.NextRunAt),
			Source:    pg.OrZero(row.NextSource),
			Steps:     row.NextSteps,
		},
	}
	if row.SkippedFrom != nil { // It was neither claimed nor started.
		run.Skipped = &runs.Skips{
			From:  *row.SkippedFrom,
			To:    row.ScheduledFor,
			Count: *row.SkippedCount,
		}
		run.WorkerID, run.ClaimedAt, run.StartedAt = [16]byte{}, time.Time{}, time.Time{}
	}
	if run.Unclaimed() { // Its row has the instant of its end as claim and start, because the columns are not null.
		run.ClaimedAt, run.StartedAt = time.Time{}, time.Time{}
	}
	return run
}

// LiveRunOf returns the run of a row of live runs.
func LiveRunOf(row *dbsqlc.LiveRun) runs.Run {
	run := runs.Run{
		ID:                row.RunID,
		EndpointID:        cmp.Or(pg.OrZero(row.OwnerID), row.EndpointID),
		TenantID:          row.TenantID,
		ScheduledFor:      row.Slot,
		Attempt:           int(row.Attempt),
		InfraAttempt:      int(row.InfraAttempt),
		Source:            row.Source,
		ClaimToken:        row.ClaimToken,
		WorkerID:          row.WorkerID,
		ClaimedAt:         row.ClaimedAt,
		StartedAt:         row.StartedAt,
		CancelRequestedAt: pg.OrZero(row.CancelRequestedAt),
		Outcome:           runs.Outcome{Status: runs.Running},
	}
	if row.OwnerID != nil {
		run.ItemID = row.EndpointID
	}
	if row.WorkerID == SuspendedHolder {
		run.WorkerID, run.SuspendedUntil = [16]byte{}, row.LockedUntil
	}
	return run
}

// SuspendedHolder is the Max UUID, which holds suspended runs in place of a worker. The sweeper
// claims rows under the nil UUID.
var SuspendedHolder = [16]byte(bytes.Repeat([]byte{0xff}, 16)) //nolint:gochecknoglobals // A constant.

func waitingRunOf(row *dbsqlc.OneOffListWaitingRow) runs.Run {
	return runs.Run{
		ID:           row.RunID,
		EndpointID:   row.EndpointID,
		TenantID:     row.TenantID,
		ScheduledFor: row.Slot,
		Attempt:      int(row.Attempt),
		InfraAttempt: int(row.InfraAttempt),
		Source:       string(governor.SourceManual),
		NotBefore:    row.NotBefore,
		Outcome:      runs.Outcome{Status: runs.Waiting},
	}
}

func us(n int32) time.Duration { return time.Duration(n) * time.Microsecond }

// Digest returns the digest of a response body; 0: none.
func Digest(n *int64) uint64 {
	return uint64(pg.OrZero(n))
}
