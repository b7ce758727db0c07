package dispatch

import (
	"sync"
	"sync/atomic"
)

// maxIdle bounds the idle goroutines of a pool, at the size of one batch of starts.
const maxIdle = startBatch

// service is the number of functions that a pooled goroutine runs before it ends. Idle goroutines
// get work in turn, therefore without this bound those of one burst would stay forever.
const service = 1000

// goroutinePool reuses goroutines. A request or a transaction needs more stack than a new goroutine
// has. Goroutines are reused, because growing the stack takes microseconds per run.
type goroutinePool struct {
	// jobs has no buffer, so that a send succeeds only if a goroutine is idle.
	jobs chan func()
	busy sync.WaitGroup // running functions
	all  sync.WaitGroup // goroutines of the pool
	// idle is the number of goroutines that wait for jobs.
	idle atomic.Int64
}

func newGoroutinePool() *goroutinePool { return &goroutinePool{jobs: make(chan func())} }

// run runs f at once, on an idle goroutine if there is one, otherwise on a new one. It never
// blocks.
func (c *goroutinePool) run(f func()) {
	c.busy.Add(1)
	select {
	case c.jobs <- f:
	default:
		c.all.Go(func() { c.work(f) })
	}
}

func (c *goroutinePool) work(f func()) {
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

func (c *goroutinePool) do(f func()) {
	defer c.busy.Done()
	f()
}

// wait returns when no function runs any more. No call of run may be concurrent with it.
func (c *goroutinePool) wait() { c.busy.Wait() }

// end ends the goroutines. It must follow wait, because run may not be called after it.
func (c *goroutinePool) end() {
	close(c.jobs)
	c.all.Wait()
}

// close waits for the running functions and ends the goroutines.
func (c *goroutinePool) close() {
	c.wait()
	c.end()
}
