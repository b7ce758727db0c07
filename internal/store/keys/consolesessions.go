package keys

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// ConsoleSessions stores the sessions of the console. It stores only hashes, so that a leaked row
// gives no access.
type ConsoleSessions struct {
	db *pg.DB
}

// NewConsoleSessions returns the store of the console's sessions.
func NewConsoleSessions(db *pg.DB) *ConsoleSessions { return &ConsoleSessions{db: db} }

// Open stores a session that stands for an API key. Both are given by the hash of their secret. The
// session expires after ttl.
func (s *ConsoleSessions) Open(ctx context.Context, session, key [sha256.Size]byte, ttl time.Duration) error {
	err := s.db.Q.ConsoleSessionInsert(ctx, s.db.Pool, dbsqlc.ConsoleSessionInsertParams{
		Hash:    session[:],
		KeyHash: key[:],
		TtlMs:   ttl.Milliseconds(),
	})
	if err != nil {
		return fmt.Errorf("opening a session: %w", pg.Translate(err))
	}
	return nil
}

// Find returns the hash of the API key of a session. The error is an [errs.NotFound] if the session
// does not exist or has expired. The caller must check that the key itself is still valid.
func (s *ConsoleSessions) Find(ctx context.Context, session [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	ctx, cancel := s.db.WithLimit(ctx)
	defer cancel()
	row, err := s.db.Q.ConsoleSessionFind(ctx, s.db.Pool, dbsqlc.ConsoleSessionFindParams{Hash: session[:], Now: s.db.Now()})
	switch {
	case pg.IsMissing(err):
		return key, errs.New(errs.NotFound, "not_found", "there is no such session")
	case err != nil:
		return key, fmt.Errorf("looking for a session: %w", pg.Translate(err))
	}
	return [sha256.Size]byte(row), nil
}

// Close deletes a session. It is idempotent: a session that does not exist is no error.
func (s *ConsoleSessions) Close(ctx context.Context, session [sha256.Size]byte) error {
	if err := s.db.Q.ConsoleSessionDelete(ctx, s.db.Pool, session[:]); err != nil {
		return fmt.Errorf("ending a session: %w", pg.Translate(err))
	}
	return nil
}
