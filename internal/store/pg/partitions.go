package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/store/dbsqlc"
)

// WithPartitions runs write, and again after creating missing day partitions. The recorded days may
// depend on rows that write reads, so that days is called after each failure, at most twice.
func (db *DB) WithPartitions(ctx context.Context, days func() []time.Time, write func() error) error {
	err := write()
	for range 2 {
		if pg, found := errors.AsType[*pgconn.PgError](err); !found || !noPartition(pg) {
			return err
		}
		made := map[time.Time]bool{}
		for _, day := range days() {
			if made[day] {
				continue
			}
			made[day] = true
			if err := db.Q.HistoryCreateDay(ctx, db.Pool, dbsqlc.HistoryCreateDayParams{Day: day, Now: db.Now()}); err != nil {
				return fmt.Errorf("making the history ready for %s: %w", day.Format(time.DateOnly), Translate(err))
			}
		}
		err = write()
	}
	return err
}

// DayOf returns the start of the UTC day of an instant.
func DayOf(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }
