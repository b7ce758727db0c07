package dispatch

import (
	"sync"
	"sync/atomic"
)

// maxIdle is how many goroutines of a crew wait for more: as many as one batch of starts needs.
const maxIdle = startBatch

// service is how many functions a goroutine of a crew runs before it ends. Idle ones get work in turn, so without this bound those that one
// burst added would stay for good.
const service = 1000

// crew runs functions on goroutines that are used again. What sends a request needs more stack than a goroutine begins with, and a fresh
// one for every run spends microseconds on growing into it.
type crew struct {
	jobs chan func()
	busy sync.WaitGroup // functions
	all  sync.WaitGroup // goroutines
	idle atomic.Int64
}

func newCrew() *crew { return &crew{jobs: make(chan func())} }

// run runs f, at once.
func (c *crew) run(f func()) {
	c.busy.Add(1)
	select {
	case c.jobs <- f:
	default:
		c.all.Go(func() { c.work(f) })
	}
}

func (c *crew) work(f func()) {
	for open, served := true, 1; open; served++ {
		c.do(f)
		if served == service {
			return
		}
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		f, open = <-c.jobs
		c.idle.Add(-1)
	}
}

func (c *crew) do(f func()) {
	defer c.busy.Done()
	f()
}

// wait returns when no function runs any more. Nobody may call run meanwhile.
func (c *crew) wait() { c.busy.Wait() }

// end ends the goroutines, after wait.
func (c *crew) end() {
	close(c.jobs)
	c.all.Wait()
}
