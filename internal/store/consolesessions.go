package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
)

// ConsoleSessions keeps who is signed in to the console. It holds hashes alone: nothing in it opens anything.
type ConsoleSessions struct {
	db *DB
}

// NewConsoleSessions returns the store of the console's sessions.
func NewConsoleSessions(db *DB) *ConsoleSessions { return &ConsoleSessions{db: db} }

// Open keeps a session, by the hash of its secret, that stands for an API key, by the hash of that, for a time.
func (s *ConsoleSessions) Open(ctx context.Context, session, key [sha256.Size]byte, ttl time.Duration) error {
	err := s.db.q.ConsoleSessionInsert(ctx, s.db.pool, dbsqlc.ConsoleSessionInsertParams{Hash: session[:], KeyHash: key[:], TtlMs: ttl.Milliseconds()})
	if err != nil {
		return fmt.Errorf("opening a session: %w", translate(err))
	}
	return nil
}

// Find returns the hash of the API key that a session stands for. The error is an [errs.NotFound] where there is no such session, or
// where its time is over. Whether the key is still in force is for others to say.
func (s *ConsoleSessions) Find(ctx context.Context, session [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	ctx, cancel := s.db.brief(ctx)
	defer cancel()
	row, err := s.db.q.ConsoleSessionFind(ctx, s.db.pool, dbsqlc.ConsoleSessionFindParams{Hash: session[:], Now: s.db.now()})
	switch {
	case missing(err):
		return key, errs.New(errs.NotFound, "not_found", "there is no such session")
	case err != nil:
		return key, fmt.Errorf("looking for a session: %w", translate(err))
	}
	return [sha256.Size]byte(row), nil
}

// Close ends a session. One that is over already is no error.
func (s *ConsoleSessions) Close(ctx context.Context, session [sha256.Size]byte) error {
	if err := s.db.q.ConsoleSessionDelete(ctx, s.db.pool, session[:]); err != nil {
		return fmt.Errorf("ending a session: %w", translate(err))
	}
	return nil
}
