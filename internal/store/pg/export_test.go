package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RunPipeline is pipeline through the pool.
func RunPipeline(ctx context.Context, db *DB, statements ...Statement) error {
	return PipelineOn(ctx, db.Hot, statements...)
}

// LockTimeouts returns how long statements wait for a lock on the main connections and on those of
// the hot path.
func LockTimeouts(ctx context.Context, db *DB) (asks, works string, err error) {
	if err := db.Pool.QueryRow(ctx, "SHOW lock_timeout").Scan(&asks); err != nil {
		return "", "", err
	}
	return asks, works, db.Hot.QueryRow(ctx, "SHOW lock_timeout").Scan(&works)
}

// Occupy takes some of the main connections until release.
func Occupy(ctx context.Context, db *DB, conns int) (release func(), err error) {
	return occupy(ctx, db.Pool, conns)
}

// OccupyHot takes every connection of the hot path until release.
func OccupyHot(ctx context.Context, db *DB) (release func(), err error) {
	return occupy(ctx, db.Hot, hotConns)
}

func occupy(ctx context.Context, pool *pgxpool.Pool, conns int) (release func(), err error) {
	var taken []*pgxpool.Conn
	release = func() {
		for _, c := range taken {
			c.Release()
		}
	}
	for range conns {
		c, err := pool.Acquire(ctx)
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, c)
	}
	return release, nil
}

// OpenImpatient is Open with a main pool of conns connections. Transactions wait at most conn for a
// connection, and statements at most lock for a lock.
func OpenImpatient(ctx context.Context, url string, conns int32, conn, lock time.Duration) (*DB, error) {
	return Open(ctx, Config{URL: url, MaxConns: conns, connWait: conn, lockWait: lock})
}

// OpenHurried is Open with a main pool of conns connections and transactions of at most tx.
func OpenHurried(ctx context.Context, url string, conns int32, tx time.Duration) (*DB, error) {
	return Open(ctx, Config{URL: url, MaxConns: conns, txWait: tx})
}

// BoundConnect bounds one attempt to connect, as every pool does.
func BoundConnect(cc *pgx.ConnConfig) { boundConnect(cc) }
