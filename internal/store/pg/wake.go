package pg

import (
	"context"
	"sync"
	"time"
)

const (
	// farthest is the longest horizon of a worker. Polling finds later due times in time.
	farthest = time.Minute
	// wakeTime bounds the sending of one notification.
	wakeTime = 5 * time.Second
)

// waker notifies workers of earlier due times after the commit of their change. A NOTIFY inside the
// transaction would be atomic with it. However, Postgres serialises the commits of all transactions
// with a NOTIFY in the cluster, each with its log flush, which bounds the whole installation to a
// few hundred changes a second. Therefore notifications have transactions of their own without a
// flush, at most one at a time, and due times that arrive meanwhile share the next one. A lost
// notification costs one poll interval.
type waker struct {
	mu      sync.Mutex
	due     time.Time // the earliest due time to send; zero: none
	closed  bool
	sending bool
	senders sync.WaitGroup
}

// Wake schedules a notification about a due time if it lies close enough after now. The zero
// instant is ignored.
func (db *DB) Wake(ctx context.Context, due, now time.Time) {
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
		w.senders.Go(func() { db.sendWakes(context.WithoutCancel(ctx)) }) // The notification outlives the request of its change.
	}
}

// sendWakes sends notifications until none is pending. It uses the pool of the hot path, so that a
// burst of changes, which have another pool, does not delay it.
func (db *DB) sendWakes(ctx context.Context) {
	for due, more := db.waker.next(); more; due, more = db.waker.next() {
		ctx, cancel := context.WithTimeout(ctx, wakeTime)
		_ = db.Q.ScheduleWake(ctx, db.Hot, due.UnixMilli()) // Polling finds a missed one.
		cancel()
	}
}

// next returns the next due time to send, if any.
func (w *waker) next() (due time.Time, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due, w.due = w.due, time.Time{}
	w.sending = !due.IsZero() && !w.closed
	return due, w.sending
}

// close waits for the notification in flight and sends no other.
func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.senders.Wait()
}
