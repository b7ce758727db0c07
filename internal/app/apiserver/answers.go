package apiserver

import (
	"context"
	"time"

	"rubato/internal/store"
)

const (
	// answersPeriod is how often kept answers that are out of date are deleted, and answersTimeout bounds one statement of it.
	answersPeriod  = time.Minute
	answersTimeout = 10 * time.Second
)

// forgetAnswers deletes kept answers once they are out of date, until ctx ends. Every API server does it; they do not get in each
// other's way.
func (s server) forgetAnswers(ctx context.Context) {
	answers := store.NewIdempotency(s.DB)
	ticker := time.NewTicker(answersPeriod)
	defer ticker.Stop()
	for {
		for more := true; more; {
			more = s.forgetSome(ctx, answers)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// forgetSome reports whether there may be more to delete.
func (s server) forgetSome(ctx context.Context, answers *store.Idempotency) bool {
	limited, cancel := context.WithTimeout(ctx, answersTimeout)
	defer cancel()
	swept, err := answers.Sweep(limited)
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("deleting kept answers failed; the next pass tries again", "error", err)
	}
	return err == nil && swept > 0
}
