package dispatch

import (
	"sync"
	"time"
)

// clock estimates the database's time, in which all due times are, from this process's monotonic clock.
//
// A statement that is answered within a round trip of r tells that time to within r. The clock keeps the recent sample with the shortest r,
// and assumes that the database read its clock at the very end of it. So the estimate is never ahead: no run starts early, and none more
// than r late.
type clock struct {
	base time.Time // anchors the monotonic readings

	mu          sync.Mutex
	known       bool
	atBase      time.Time     // database time at base
	uncertainty time.Duration // r of the sample in use
	taken       time.Duration // when it was taken, since base
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
	atBase := now.Add(-at)

	c.mu.Lock()
	defer c.mu.Unlock()
	stepped := atBase.Sub(c.atBase).Abs() > c.uncertainty+r+clockStep
	if !c.known || r <= c.uncertainty || at-c.taken > sampleLife || stepped {
		c.known, c.atBase, c.uncertainty, c.taken = true, atBase, r, at
	}
}

// now returns the database's time, and whether it is known yet.
func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atBase.Add(time.Since(c.base)), c.known
}

// latest returns what the database's time is at most.
func (c *clock) latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atBase.Add(time.Since(c.base) + c.uncertainty)
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
