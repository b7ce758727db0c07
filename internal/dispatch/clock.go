package dispatch

import (
	"sync"
	"time"
)

// clock estimates the database's time, in which all due times are, from this process's monotonic
// clock. It is safe for concurrent use.
//
// A statement with a round trip of r gives that time to within r. The clock keeps the recent sample
// with the shortest r, and assumes that the database read its clock at the very end of the round
// trip. Therefore the estimate is never ahead: no run starts early, and none starts more than r
// late.
type clock struct {
	// base is the origin of the monotonic readings. It never changes.
	base time.Time

	// mu guards the sample in use.
	mu          sync.Mutex
	known       bool
	atBase      time.Time     // database time at base
	uncertainty time.Duration // round trip of the sample
	taken       time.Duration // when the sample was taken, since base
}

const (
	// sampleLife is the age after which any new sample replaces the old one. The drift of machine
	// clocks within it is negligible, because it is some milliseconds an hour at worst.
	sampleLife = time.Minute
	// clockStep is the difference beyond the uncertainty of two samples that reveals a step of the
	// database's clock.
	clockStep = 50 * time.Millisecond
)

func newClock() *clock { return &clock{base: time.Now()} }

// sample adds a sample: the database read its clock as now between sent and received.
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

// now returns the estimate of the database's time, and whether there is a sample yet.
func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atBase.Add(time.Since(c.base)), c.known
}

// latest returns an upper bound of the database's time.
func (c *clock) latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atBase.Add(time.Since(c.base) + c.uncertainty)
}

// until returns the time left until an instant of database time; negative if it has passed.
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
