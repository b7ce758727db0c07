package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"rubato/internal/claims"
)

// backlog holds claims for a retry after the database was unavailable: claims with unread targets,
// and claims that could not be released. It is safe for concurrent use.
type backlog struct {
	// mu guards both lists.
	mu         sync.Mutex
	unread     []claims.Claim
	unreturned []claims.Claim
}

func (b *backlog) read(list []claims.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread = append(b.unread, list...)
}

func (b *backlog) giveBack(list []claims.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unreturned = append(b.unreturned, list...)
}

// take removes and returns all claims.
func (b *backlog) take() (unread, unreturned []claims.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	unread, unreturned = b.unread, b.unreturned
	b.unread, b.unreturned = nil, nil
	return unread, unreturned
}

// waiting returns the number of claims that may still run.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.unread)
}

// empty reports whether the backlog holds no claim.
func (b *backlog) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.unread)+len(b.unreturned) == 0
}

// backlogLoop retries every idleWait until ctx ends. It drops claims with an expired lock, because
// any worker may claim them again.
func (w *Worker) backlogLoop(ctx context.Context) {
	ticker := time.NewTicker(idleWait)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if w.drainOrdered.Load() { // The drain releases them.
			continue
		}
		unread, unreturned := w.backlog.take()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
		w.enqueue(limited, w.stillHeld(unread))
		w.giveBack(limited, w.stillHeld(unreturned))
		cancel()
	}
}

// stillHeld removes the claims with a lock that has expired by the estimate of the database's time.
// Without an estimate it removes none.
func (w *Worker) stillHeld(list []claims.Claim) []claims.Claim {
	now, known := w.clock.now()
	return slices.DeleteFunc(list, func(c claims.Claim) bool { return known && !c.LockedUntil.After(now) })
}
