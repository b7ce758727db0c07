package apiserver

import (
	"context"
	"time"

	keystore "rubato/internal/store/keys"
)

const (
	// answersPeriod is the interval of the sweep; answersTimeout bounds one of its statements.
	answersPeriod  = time.Minute
	answersTimeout = 10 * time.Second
)

// sweepAnswers deletes expired responses to idempotent requests until ctx ends. Every API server
// runs it. Concurrent sweeps are safe.
func (s server) sweepAnswers(ctx context.Context) {
	answers := keystore.NewIdempotency(s.DB)
	ticker := time.NewTicker(answersPeriod)
	defer ticker.Stop()
	for {
		for more := true; more; {
			more = s.sweepBatch(ctx, answers)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweepBatch deletes one batch and reports whether there may be more to delete.
func (s server) sweepBatch(ctx context.Context, answers *keystore.Idempotency) bool {
	limited, cancel := context.WithTimeout(ctx, answersTimeout)
	defer cancel()
	swept, err := answers.Sweep(limited)
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("deleting expired idempotent responses failed; the next sweep retries", "error", err)
	}
	return err == nil && swept > 0
}
