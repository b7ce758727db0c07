package pg

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rubato/internal/store/dbsqlc"
)

const (
	// lowMargin is the minimum distance of a low-water mark behind the database's time. A due time
	// or the end of a lock is not before the statement that writes it, and the duration of a
	// transaction is bounded.
	lowMargin = 10 * time.Second
	// fullShare is the time until the next full scan, as a multiple of the duration of the last
	// one. fullLatest bounds it.
	fullShare  = 100
	fullLatest = time.Minute
)

// LowWaterMark is a low-water mark of an index on due_at: no entry before it stands for a row that
// is due, or for a lock that has expired. Scans start from it, so that they skip the dead entries
// that an old snapshot keeps below it.
//
// Rows appear below the mark if the database's clock is set back, or if a claim is released long
// after its due time. Therefore full scans find them: after a step back of the clock, and otherwise
// after a hundred times the duration of the last full scan, at most a minute. While full scans are
// fast, each call makes one.
//
// The zero value is ready and starts with a full scan. It is safe for concurrent use.
type LowWaterMark struct {
	mu  sync.Mutex
	at  time.Time // zero: unknown
	now time.Time // the database's time at the last scan
	// full is when the last full scan began, and took its duration.
	full time.Time
	took time.Duration
}

// From returns the instant from which scans start; nil: the low end of the index.
func (m *LowWaterMark) From() *time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.from()
}

func (m *LowWaterMark) from() *time.Time {
	if m.at.IsZero() {
		return nil
	}
	return new(m.at)
}

// Reset forgets the mark.
func (m *LowWaterMark) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.now, m.full, m.took = time.Time{}, time.Time{}, time.Time{}, 0
}

// Find moves the mark. scan returns the database's time and the lowest entry between an instant, or
// the low end of the index if that is nil, and that time. After an error the mark stays as it is.
func (m *LowWaterMark) Find(scan func(from *time.Time) (now, lowest time.Time, err error)) error {
	sent := time.Now()
	from := m.next(sent)
	now, lowest, err := scan(from)
	m.mu.Lock()
	defer m.mu.Unlock()
	if from == nil {
		m.full, m.took = sent, time.Since(sent)
	}
	if err == nil {
		m.move(now, lowest)
	}
	return err
}

// next returns the instant from which the next scan starts; nil: it is a full one.
func (m *LowWaterMark) next(sent time.Time) *time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sent.Sub(m.full) >= min(fullShare*m.took, fullLatest) {
		return nil
	}
	return m.from()
}

// move moves the mark after a scan, by the database's time and the lowest entry.
func (m *LowWaterMark) move(now, lowest time.Time) {
	stepped := now.Before(m.now)
	m.now = now
	m.at = now.Add(-lowMargin)
	if lowest.Before(m.at) {
		m.at = lowest
	}
	if stepped {
		m.at = time.Time{}
	}
}

// DueGauge reads the gauge of due endpoints up to a number of them, from a mark, and moves the
// mark.
func (db *DB) DueGauge(ctx context.Context, tx dbsqlc.DBTX, m *LowWaterMark, most int) (gauge *dbsqlc.ScheduleGaugeRow, err error) {
	err = m.Find(func(from *time.Time) (now, lowest time.Time, err error) {
		gauge, err = db.Q.ScheduleGauge(ctx, tx, dbsqlc.ScheduleGaugeParams{
			Now:     db.Now(),
			FromAt:  from,
			MaxRows: int32(most),
		})
		if err != nil {
			return now, lowest, fmt.Errorf("counting due endpoints: %w", err)
		}
		return gauge.Now, gauge.Lowest, nil
	})
	return gauge, err
}
