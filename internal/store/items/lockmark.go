package items

import (
	"context"
	"time"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

const (
	// lockMargin is the minimum distance of a lock mark behind the database's time. A lock ends after
	// the statement that grants it, and the store bounds the duration of a transaction.
	lockMargin = 10 * time.Second
	// fullShare is the time until the next full scan, as a multiple of the duration of the last one.
	// fullLatest bounds it.
	fullShare  = 100
	fullLatest = time.Minute
)

// lockMark is a low-water mark on the ends of locks: no claim and no live run has a lock that ends
// before it. Sweeps scan the index of held rows from it, so that they skip the dead entries that an
// old snapshot keeps below it.
//
// No lock is granted below the mark, unless the database's clock is set back. Therefore a step back
// makes the next scans full ones. Full scans also follow after a hundred times their duration, at
// most a minute, so that a wrong mark is corrected. While they are fast, every pass makes one.
//
// The zero value lets scans start at the low end of the index. It is not safe for concurrent use.
type lockMark struct {
	at  time.Time // zero: unknown
	now time.Time // the database's time at the last scan
	// full is when the last full scan began, and took its duration.
	full time.Time
	took time.Duration
}

// from returns the instant from which scans start; nil: the low end of the index.
func (m *lockMark) from() *time.Time {
	if m.at.IsZero() {
		return nil
	}
	return new(m.at)
}

// begin makes the next scan a full one if it is time for that.
func (m *lockMark) begin(sent time.Time) {
	if sent.Sub(m.full) >= min(fullShare*m.took, fullLatest) {
		m.at = time.Time{}
	}
}

// end moves the mark after a scan that read the database's time and the lowest end of an expired
// lock.
func (m *lockMark) end(sent time.Time, took time.Duration, now, lowest time.Time) {
	if m.at.IsZero() {
		m.full, m.took = sent, took
	}
	stepped := now.Before(m.now)
	m.now = now
	m.at = now.Add(-lockMargin)
	if lowest.Before(m.at) {
		m.at = lowest
	}
	if stepped {
		m.at = time.Time{}
	}
}

// MarkLocks implements zombie.Locks.
func (s *Sweeps) MarkLocks(ctx context.Context) error {
	sent := time.Now()
	s.locks.begin(sent)
	row, err := s.db.Q.ScheduleLowestLock(ctx, s.db.Sweeps, dbsqlc.ScheduleLowestLockParams{
		Now:    s.db.Now(),
		FromAt: s.locks.from(),
	})
	if err != nil {
		return pg.Translate(err)
	}
	s.locks.end(sent, time.Since(sent), row.Now, row.Lowest)
	return nil
}
