package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"rubato/internal/claims"
)

// backlog is what the database could not be asked for while it was away: claims whose targets were not read, and claims that were not
// given back. It is safe for concurrent use.
type backlog struct {
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

// take takes out everything.
func (b *backlog) take() (unread, unreturned []claims.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	unread, unreturned = b.unread, b.unreturned
	b.unread, b.unreturned = nil, nil
	return unread, unreturned
}

// waiting returns how many claims may still be run.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.unread)
}

// backlogLoop asks again until ctx ends. A claim whose lock is over is let go of: it is anybody's.
func (w *Worker) backlogLoop(ctx context.Context) {
	ticker := time.NewTicker(idleWait)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		unread, unreturned := w.backlog.take()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
		w.enqueue(limited, w.stillHeld(unread))
		w.giveBack(limited, w.stillHeld(unreturned))
		cancel()
	}
}

// stillHeld leaves out claims whose locks are over by what is known of the database's time.
func (w *Worker) stillHeld(list []claims.Claim) []claims.Claim {
	now, known := w.clock.now()
	return slices.DeleteFunc(list, func(c claims.Claim) bool { return known && !c.LockedUntil.After(now) })
}
