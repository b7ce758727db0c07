package endpoints

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"rubato/internal/governor"
)

// retry plans another attempt of the due time that run stood for, where the policy allows one: attempts are left, the failure is
// of a class that trying again may mend, a request that may have arrived may arrive twice, and the attempt would come before the
// next due time. The minimum interval holds between attempts as well. A paused endpoint is not tried again.
func (e *Endpoint) retry(now time.Time, run Finished, next time.Time) (Due, bool) {
	policy := e.Spec.Retry
	if !run.Retryable || run.Attempt >= policy.MaxAttempts || run.Manual && !e.State.ManualAt.IsZero() || e.PausedAt(now) {
		return Due{}, false
	}
	if run.MaybeSent && !e.Spec.IdempotentMethod() && !e.Spec.Idempotent {
		return Due{}, false
	}
	at := laterOf(now.Add(policy.wait(e.ID, run)), run.RetryAfter)
	if e.Spec.MinInterval > 0 { // Rounded up to the whole milliseconds that due times have.
		at = laterOf(at, run.StartedAt.Add(e.Spec.MinInterval+time.Millisecond-1).Truncate(time.Millisecond))
	}
	if !at.Before(next) {
		return Due{}, false
	}
	return Due{At: at, Slot: run.Slot, Attempt: run.Attempt + 1, Source: e.retrySource(run)}, true
}

// retrySource keeps the source of a run that somebody asked for; any other attempt is planned by the retry policy of the same
// due time, so it keeps the baseline's name.
func (e *Endpoint) retrySource(run Finished) governor.Source {
	switch {
	case run.Manual:
		return governor.SourceManual
	case e.Spec.BaselineCron != "":
		return governor.SourceBaselineCron
	default:
		return governor.SourceBaselineInterval
	}
}

// wait returns the time before the next attempt: full jitter (a share of the doubled and capped backoff), drawn from a hash of
// the endpoint, the due time and the attempt, so that it is stable.
func (r Retry) wait(id ID, run Finished) time.Duration {
	bound := r.Backoff
	for range run.Attempt - 1 {
		bound = min(bound*2, r.MaxBackoff)
	}
	bound = min(bound, r.MaxBackoff)

	h := fnv.New64a()
	h.Write(id[:])
	var seed [16]byte
	binary.BigEndian.PutUint64(seed[:8], uint64(run.Slot.UnixMilli()))
	binary.BigEndian.PutUint64(seed[8:], uint64(run.Attempt)) //nolint:gosec // Likewise.
	h.Write(seed[:])
	return time.Duration(h.Sum64()%uint64(bound.Milliseconds()+1)) * time.Millisecond //nolint:gosec // At most 24 h.
}
