package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/idempotency"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

const (
	// answerTTL is how long a key and its answer are stored. Clients are expected to retry within
	// it.
	answerTTL = 24 * time.Hour

	// attemptLock is the lock timeout of an attempt. It exceeds the server's timeout for requests
	// with a key.
	attemptLock = time.Minute

	// answersPerSweep bounds the deletions of one sweep.
	answersPerSweep = 1000
)

// Idempotency stores the answers to requests with an Idempotency-Key. It implements httpapi.Once.
type Idempotency struct {
	db *pg.DB
}

// NewIdempotency returns the store of answers.
func NewIdempotency(db *pg.DB) *Idempotency { return &Idempotency{db: db} }

// Reserve reserves the key of an attempt, or returns the state of the request that holds it. If the
// state is Answered, the answer is that request's answer.
func (s *Idempotency) Reserve(ctx context.Context, a idempotency.Attempt) (idempotency.State, idempotency.Answer, error) {
	params := dbsqlc.IdempotencyReserveParams{
		TenantID:    a.TenantID,
		Route:       a.Route,
		KeyHash:     a.Hash[:],
		Fingerprint: a.Fingerprint[:],
		Token:       a.Token,
		Lock:        attemptLock,
		Keep:        answerTTL,
	}
	row, err := s.db.Q.IdempotencyReserve(ctx, s.db.Pool, params)
	if pg.IsMissing(err) { // A concurrent attempt inserted the key. A new snapshot sees its row.
		row, err = s.db.Q.IdempotencyReserve(ctx, s.db.Pool, params)
	}
	if pg.IsMissing(err) {
		return idempotency.Busy, idempotency.Answer{}, nil
	}
	if err != nil {
		return 0, idempotency.Answer{}, fmt.Errorf("reserving an idempotency key: %w", pg.Translate(err))
	}
	return standing(row, a)
}

// standing returns the state of a key, as seen by an attempt.
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
		return 0, answer, fmt.Errorf("reading the headers of a stored answer: %w", err)
	}
	return idempotency.Answered, answer, nil
}

// Complete stores the answer of an attempt. It fails if another attempt holds the key by now.
func (s *Idempotency) Complete(ctx context.Context, a idempotency.Attempt, answer idempotency.Answer) error {
	rows, err := s.db.Q.IdempotencyComplete(ctx, s.db.Pool, dbsqlc.IdempotencyCompleteParams{
		TenantID: a.TenantID,
		Route:    a.Route,
		KeyHash:  a.Hash[:],
		Token:    a.Token,
		Status:   int16(answer.Status),
		Headers:  pg.EncodeTexts(answer.Header),
		Body:     answer.Body,
		Sealed:   answer.Sealed,
	})
	if err == nil && rows != 1 {
		err = errs.New(errs.Conflict, "", "another attempt has taken the key")
	}
	if err != nil {
		return fmt.Errorf("storing the answer of an idempotency key: %w", pg.Translate(err))
	}
	return nil
}

// Release releases the key of an attempt without an answer. outcomeKnown means that no part of the
// attempt can still take effect. Then the key becomes free, unless the attempt was executed.
// Otherwise the key stays reserved, with an unknown outcome.
func (s *Idempotency) Release(ctx context.Context, a idempotency.Attempt, outcomeKnown bool) error {
	var err error
	if outcomeKnown {
		err = s.db.Q.IdempotencyRelease(ctx, s.db.Pool, dbsqlc.IdempotencyReleaseParams{
			TenantID: a.TenantID,
			Route:    a.Route,
			KeyHash:  a.Hash[:],
			Token:    a.Token,
		})
	} else {
		err = s.db.Q.IdempotencyUnlock(ctx, s.db.Pool, dbsqlc.IdempotencyUnlockParams{
			TenantID: a.TenantID,
			Route:    a.Route,
			KeyHash:  a.Hash[:],
			Token:    a.Token,
		})
	}
	if err != nil {
		return fmt.Errorf("releasing an idempotency key: %w", pg.Translate(err))
	}
	return nil
}

// Sweep deletes expired keys, a bounded number per call. It returns the number of deleted keys.
func (s *Idempotency) Sweep(ctx context.Context) (int, error) {
	swept, err := s.db.Q.IdempotencySweep(ctx, s.db.Pool, answersPerSweep)
	if err != nil {
		return 0, fmt.Errorf("deleting expired idempotency keys: %w", pg.Translate(err))
	}
	if _, err := s.db.Q.CallKeySweep(ctx, s.db.Pool, dbsqlc.CallKeySweepParams{Now: s.db.Now(), MaxRows: answersPerSweep}); err != nil {
		return 0, fmt.Errorf("deleting expired deduplication keys: %w", pg.Translate(err))
	}
	runs, err := s.db.Q.OneOffKeySweep(ctx, s.db.Pool, dbsqlc.OneOffKeySweepParams{Now: s.db.Now(), MaxRows: answersPerSweep})
	if err != nil {
		return 0, fmt.Errorf("deleting expired idempotency keys of one-off runs: %w", pg.Translate(err))
	}
	return int(swept + runs), nil
}
