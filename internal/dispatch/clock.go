package dispatch

import (
	"sync"
	"time"
)

// clock knows the database's time, which all due times are in, by this process's monotonic clock.
//
// A statement that was sent and answered within r tells the database's time with an error below r. The clock keeps the sample of
// the shortest r of late, and takes the database to have read its clock as late as possible: so a run is never started early, and
// at most r late.
type clock struct {
	base time.Time // anchors the monotonic readings

	mu    sync.Mutex
	known bool
	zero  time.Time     // database time at base
	error time.Duration // r of the sample in use
	taken time.Duration // when it was taken, since base
}

const (
	sampleLife = time.Minute           // machine clocks drift by some ms an hour at worst: a minute is nothing
	clockStep  = 50 * time.Millisecond // a disagreement beyond the errors means that the database's clock was set
)

func newClock() *clock { return &clock{base: time.Now()} }

// sample takes in that the database read its clock as now between sent and received.
func (c *clock) sample(now, sent, received time.Time) {
	r := received.Sub(sent)
	at := received.Sub(c.base)
	zero := now.Add(-at)

	c.mu.Lock()
	defer c.mu.Unlock()
	stepped := zero.Sub(c.zero).Abs() > c.error+r+clockStep
	if !c.known || r <= c.error || at-c.taken > sampleLife || stepped {
		c.known, c.zero, c.error, c.taken = true, zero, r, at
	}
}

// now returns the database's time, and whether it is known yet.
func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.zero.Add(time.Since(c.base)), c.known
}

// latest returns what the database's time is at most.
func (c *clock) latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.zero.Add(time.Since(c.base) + c.error)
}

// until returns how long it is to an instant of database time; negative when it has passed.
func (c *clock) until(due time.Time) time.Duration {
	now, _ := c.now()
	return due.Sub(now)
}

// skew returns how far this machine's wall clock is ahead of the database's.
func (c *clock) skew() time.Duration {
	now, known := c.now()
	if !known {
		return 0
	}
	return time.Now().Round(0).Sub(now)
}

// mark returns the monotonic reading that age later measures from.
func (c *clock) mark() int64 { return int64(time.Since(c.base)) }

func (c *clock) age(mark int64) time.Duration { return time.Since(c.base) - time.Duration(mark) }
