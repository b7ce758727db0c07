package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/idempotency"
	"rubato/internal/store/dbsqlc"
)

const (
	// keepAnswers is how long a key and its answer are kept: as long as a client may sensibly try again.
	keepAnswers = 24 * time.Hour

	// attemptLock is how long an attempt may be under way: longer than the server lets any request with a key take.
	attemptLock = time.Minute

	// sweptAnswers bounds one sweep.
	sweptAnswers = 1000
)

// Idempotency keeps the answers to requests that named an Idempotency-Key. It implements httpapi.Once.
type Idempotency struct {
	db *DB
}

// NewIdempotency returns the store of answers.
func NewIdempotency(db *DB) *Idempotency { return &Idempotency{db: db} }

// Reserve takes the key of an attempt, or says what became of the request that took it before. The answer is that of the other
// request where the state is Answered.
func (s *Idempotency) Reserve(ctx context.Context, a idempotency.Attempt) (idempotency.State, idempotency.Answer, error) {
	params := dbsqlc.IdempotencyReserveParams{
		TenantID: a.TenantID, Route: a.Route, KeyHash: a.Hash[:], Fingerprint: a.Fingerprint[:], Token: a.Token,
		Lock: attemptLock, Keep: keepAnswers,
	}
	row, err := s.db.q.IdempotencyReserve(ctx, s.db.pool, params)
	if missing(err) { // Another attempt took it after this statement began to look: it can be seen now.
		row, err = s.db.q.IdempotencyReserve(ctx, s.db.pool, params)
	}
	if missing(err) {
		return idempotency.Busy, idempotency.Answer{}, nil
	}
	if err != nil {
		return 0, idempotency.Answer{}, fmt.Errorf("reserving an idempotency key: %w", translate(err))
	}
	return standing(row, a)
}

// standing reads what stands under a key.
func standing(row *dbsqlc.IdempotencyReserveRow, a idempotency.Attempt) (idempotency.State, idempotency.Answer, error) {
	answer := idempotency.Answer{Body: row.Body, Sealed: row.Sealed}
	switch {
	case row.Token == a.Token:
		return idempotency.Reserved, answer, nil
	case string(row.Fingerprint) != string(a.Fingerprint[:]):
		return idempotency.Other, answer, nil
	case row.Status == nil && row.Locked:
		return idempotency.Busy, answer, nil
	case row.Status == nil:
		return idempotency.Unknown, answer, nil
	}
	answer.Status = int(*row.Status)
	if err := json.Unmarshal(row.Headers, &answer.Header); err != nil {
		return 0, answer, fmt.Errorf("reading the headers of a kept answer: %w", err)
	}
	return idempotency.Answered, answer, nil
}

// Complete keeps the answer of an attempt.
func (s *Idempotency) Complete(ctx context.Context, a idempotency.Attempt, answer idempotency.Answer) error {
	rows, err := s.db.q.IdempotencyComplete(ctx, s.db.pool, dbsqlc.IdempotencyCompleteParams{
		TenantID: a.TenantID, Route: a.Route, KeyHash: a.Hash[:], Token: a.Token,
		Status: int16(answer.Status), Headers: object(answer.Header), Body: answer.Body, Sealed: answer.Sealed, //nolint:gosec // Three digits.
	})
	if err == nil && rows != 1 {
		err = errs.New(errs.Conflict, "", "another attempt has taken the key")
	}
	if err != nil {
		return fmt.Errorf("keeping the answer under an idempotency key: %w", translate(err))
	}
	return nil
}

// Release gives the key of an attempt back. Where nothing was done under it, the key is free as if it had never been used; else it
// stays taken, with an unknown answer. outcomeKnown says that nothing that the attempt began can still take effect.
func (s *Idempotency) Release(ctx context.Context, a idempotency.Attempt, outcomeKnown bool) error {
	var err error
	if outcomeKnown {
		err = s.db.q.IdempotencyRelease(ctx, s.db.pool, dbsqlc.IdempotencyReleaseParams{
			TenantID: a.TenantID, Route: a.Route, KeyHash: a.Hash[:], Token: a.Token,
		})
	} else {
		err = s.db.q.IdempotencyUnlock(ctx, s.db.pool, dbsqlc.IdempotencyUnlockParams{
			TenantID: a.TenantID, Route: a.Route, KeyHash: a.Hash[:], Token: a.Token,
		})
	}
	if err != nil {
		return fmt.Errorf("giving an idempotency key back: %w", translate(err))
	}
	return nil
}

// Sweep deletes keys that are out of date, a bounded number at once, and returns how many it deleted.
func (s *Idempotency) Sweep(ctx context.Context) (int, error) {
	swept, err := s.db.q.IdempotencySweep(ctx, s.db.pool, sweptAnswers)
	if err != nil {
		return 0, fmt.Errorf("deleting idempotency keys that are out of date: %w", translate(err))
	}
	runs, err := s.db.q.OneOffKeySweep(ctx, s.db.pool, dbsqlc.OneOffKeySweepParams{Now: s.db.now(), MaxRows: sweptAnswers})
	if err != nil {
		return 0, fmt.Errorf("deleting idempotency keys of one-off runs that are out of date: %w", translate(err))
	}
	return int(swept + runs), nil
}

// execute marks the request that a transaction carries out, where it has a key. A request whose key another attempt has taken since
// must not take effect.
func (db *DB) execute(ctx context.Context, tx dbsqlc.DBTX) error {
	a, keyed := idempotency.From(ctx)
	if !keyed {
		return nil
	}
	rows, err := db.q.IdempotencyExecute(ctx, tx, dbsqlc.IdempotencyExecuteParams{
		TenantID: a.TenantID, Route: a.Route, KeyHash: a.Hash[:], Token: a.Token,
	})
	if err != nil {
		return fmt.Errorf("marking an idempotency key: %w", err)
	}
	if rows != 1 {
		return errs.New(errs.Conflict, "idempotency_in_progress", "another request with this Idempotency-Key has overtaken this one")
	}
	return nil
}
