package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/schedule"
)

// pageSize is the number of endpoints that are listed at once.
const pageSize = 1000

// page returns the next endpoints by ID that were registered up to an instant; zero: up to now.
func page(ctx context.Context, tx pgx.Tx, after endpoints.ID, until time.Time) ([]endpoints.ID, error) {
	rows, err := tx.Query(ctx, "SELECT id FROM endpoints WHERE id > $1 AND ($2::timestamptz < '2000-01-01' OR created_at <= $2) ORDER BY id LIMIT $3", [16]byte(after), until, pageSize)
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	ids := make([]endpoints.ID, len(list))
	for i, id := range list {
		ids[i] = id
	}
	return ids, nil
}

// version is a configuration as far as decisions depend on it.
type version struct {
	spec endpoints.Spec
	cron *schedule.Cron
}

// versions reads the configurations of an endpoint by version, without bodies of requests.
func versions(ctx context.Context, tx pgx.Tx, id endpoints.ID) (map[int64]*version, error) {
	rows, err := tx.Query(ctx, `
		SELECT version, spec - 'body' FROM endpoint_versions WHERE endpoint_id = $1
		UNION
		SELECT version, spec - 'body' FROM endpoints WHERE id = $1`, [16]byte(id))
	if err != nil {
		return nil, fmt.Errorf("reading the versions of the configuration: %w", err)
	}
	found := map[int64]*version{}
	var number int64
	var document []byte
	_, err = pgx.ForEachRow(rows, []any{&number, &document}, func() error {
		v := &version{}
		if err := v.spec.UnmarshalJSON(document); err != nil {
			return fmt.Errorf("reading version %d of the configuration: %w", number, err)
		}
		if v.cron, err = v.spec.ParseCron(id); err != nil {
			return fmt.Errorf("parsing the cron of version %d: %w", number, err)
		}
		found[number] = v
		return nil
	})
	return found, err
}

// startPoint is the entry at which the replay of an endpoint starts.
type startPoint struct {
	token int64
	// late reports that it is after the begin of the span, although the endpoint is older.
	late bool
}

// beginning returns the last entry with a state at or before an instant: a run or the registration.
// If there is none, it is the first one after it; nil: there is none at all.
func beginning(ctx context.Context, tx pgx.Tx, id endpoints.ID, from time.Time) (*startPoint, error) {
	for _, try := range []struct {
		sql  string
		args []any
		late bool
	}{
		{`SELECT claim_token FROM runs WHERE endpoint_id = $1 AND decided_at <= $2 AND basis -> 'state' IS NOT NULL ORDER BY id DESC LIMIT 1`, []any{[16]byte(id), from}, false},
		{`SELECT claim_token FROM decisions WHERE endpoint_id = $1 AND cause = 'register' LIMIT 1`, []any{[16]byte(id)}, false},
		{`SELECT claim_token FROM runs WHERE endpoint_id = $1 AND basis -> 'state' IS NOT NULL ORDER BY claim_token LIMIT 1`, []any{[16]byte(id)}, true},
	} {
		b := startPoint{late: try.late}
		err := tx.QueryRow(ctx, try.sql, try.args...).Scan(&b.token)
		if err == nil {
			return &b, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
	}
	return nil, nil //nolint:nilnil // No begin is no error.
}

// entry is a decision of the ledger. id is zero for the decision of a finish, and run is zero for
// the decision of a change.
type entry struct {
	id    int64
	run   runs.Run
	cause endpoints.Cause
	at    time.Time

	version  int64
	failures *int32
	next     time.Time
	source   string
	steps    []byte
	input    []byte
	basis    []byte
}

// entries calls visit for the decisions of an endpoint from a claim token on, in their order, until
// it returns false. Postgres sorts them and may use its disk for that; the program holds one.
func entries(ctx context.Context, tx pgx.Tx, id endpoints.ID, from int64, visit func(*entry) (more bool, err error)) error {
	rows, err := tx.Query(ctx, `
		SELECT r.claim_token, 0::bigint AS id, r.id AS run_id, r.scheduled_for, r.attempt, r.infra_attempt, r.source, r.started_at, r.finished_at,
		       r.status, r.reason_code, r.status_code, r.body_digest, '' AS cause, r.decided_at, r.version, r.failure_count,
		       r.next_run_at, r.next_source, r.next_steps, NULL::jsonb AS input, r.basis
		FROM runs r
		WHERE r.endpoint_id = $1 AND r.claim_token >= $2 AND r.decided_at IS NOT NULL
		UNION ALL
		SELECT d.claim_token, d.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
		       NULL, NULL, NULL, NULL, d.cause, d.decided_at, d.version, NULL,
		       d.next_run_at, d.next_source, d.next_steps, d.input, d.basis
		FROM decisions d
		WHERE d.endpoint_id = $1 AND d.claim_token >= $2
		ORDER BY 1, 2`, [16]byte(id), from)
	if err != nil {
		return fmt.Errorf("reading the ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := scan(rows, id)
		if err != nil {
			return fmt.Errorf("reading an entry of the ledger: %w", err)
		}
		more, err := visit(row)
		if err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// scan reads one entry.
func scan(rows pgx.Rows, id endpoints.ID) (*entry, error) {
	row := &entry{run: runs.Run{EndpointID: id}}
	var token int64
	var runID *[16]byte
	var slot, started, finished *time.Time
	var attempt, infra, code *int16
	var source, status, reason *string
	var digest *int64
	err := rows.Scan(
		&token, &row.id, &runID, &slot, &attempt, &infra, &source, &started, &finished,
		&status, &reason, &code, &digest, &row.cause, &row.at, &row.version, &row.failures,
		&row.next, &row.source, &row.steps, &row.input, &row.basis,
	)
	row.at, row.next = row.at.UTC(), row.next.UTC()
	if err != nil || runID == nil {
		return row, err
	}
	row.cause = endpoints.CauseFinish
	r := &row.run
	r.ID, r.ScheduledFor, r.Attempt, r.InfraAttempt, r.Source = *runID, slot.UTC(), int(*attempt), int(*infra), *source
	r.StartedAt, r.FinishedAt = started.UTC(), finished.UTC()
	r.Outcome.Status, r.Outcome.Reason = runs.Status(*status), runs.Reason(*reason)
	if code != nil {
		r.Outcome.StatusCode = int(*code)
	}
	if digest != nil {
		r.Outcome.BodyDigest = uint64(*digest)
	}
	return row, nil
}
