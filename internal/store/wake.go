package store

import (
	"context"
	"sync"
	"time"
)

const (
	// farthest is the longest horizon that a worker can have. What comes due later is found by polling before it does.
	farthest = time.Minute
	// wakeTime bounds the sending of one message.
	wakeTime = 5 * time.Second
)

// waker tells workers that something came due, after the change that made it due was committed. A message within the transaction would
// come with the commit itself. But Postgres lets one transaction with a message commit after the other, in the whole cluster, and each
// holds the others up until its log is on the disk: a few hundred changes a second would be the most. So messages have transactions of
// their own, which wait for no disk, at most one at a time, and what comes due meanwhile goes with the next. A message that is lost costs
// a poll interval.
type waker struct {
	mu      sync.Mutex
	due     time.Time // the earliest that is to be told; zero: nothing is
	closed  bool
	sending bool
	senders sync.WaitGroup
}

// wake tells workers soon that something comes due at an instant, as far as that lies close after now. The zero instant is nothing.
func (db *DB) wake(ctx context.Context, due, now time.Time) {
	if due.IsZero() || due.After(now.Add(farthest)) {
		return
	}
	w := &db.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due.IsZero() || due.Before(w.due) {
		w.due = due
	}
	if !w.sending && !w.closed {
		w.sending = true
		w.senders.Go(func() { db.sendWakes(context.WithoutCancel(ctx)) }) // What is told outlives the change that it follows.
	}
}

// sendWakes sends messages until there is nothing more to tell. It has the connections of the hot path, so that a burst of changes, which
// have others, does not hold it up.
func (db *DB) sendWakes(ctx context.Context) {
	for due, more := db.waker.next(); more; due, more = db.waker.next() {
		ctx, cancel := context.WithTimeout(ctx, wakeTime)
		_ = db.q.ScheduleWake(ctx, db.hot, due.UnixMilli()) // Whoever misses it polls.
		cancel()
	}
}

// next returns what is to be told next, if anything is.
func (w *waker) next() (due time.Time, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due, w.due = w.due, time.Time{}
	w.sending = !due.IsZero() && !w.closed
	return due, w.sending
}

// close waits for the message that is under way, and sends no other.
func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.senders.Wait()
}
