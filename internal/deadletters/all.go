package deadletters

import (
	"context"
	"errors"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

const (
	// MaxTried bounds the dead letters that one [Service.ReplayAll] tries. Each costs a transaction
	// even if it is refused, and the caller waits for all of them.
	MaxTried = 1000
	// pageSize is the number of dead letters that are read at once, because each holds a request of
	// up to 256 KiB.
	pageSize = 100
)

// ReplayAll is the request to replay open dead letters by filter, oldest due time first.
type ReplayAll struct {
	// Filter selects them; its state is ignored, and its limit bounds those that are replayed. After
	// continues an earlier request; see [Replays.Next].
	Filter
	// PerMinute bounds the starts per minute; 0: all start at once.
	PerMinute int
	NewKey    bool
}

// Refusal is a dead letter that could not be replayed, with the reason. It stays open.
type Refusal struct {
	ID  ID
	Why *errs.Error
}

// Replays is the result of replaying dead letters by filter.
type Replays struct {
	Replayed int
	Refused  []Refusal
	// Remaining means that more open dead letters match, which were not tried.
	Remaining bool
	// Next is the last dead letter that was passed if more remain: After of a request that continues
	// this one, so that it does not try the refused ones again.
	Next ID
}

// ReplayAll replays open dead letters that a filter selects until as many as its limit are
// replayed, none is left, or [MaxTried] were tried. Refused ones stay open and do not count for the
// limit, so that they do not keep later ones from their replay. It stops early if a queue is full
// or the database is away. A dead letter that another caller handles meanwhile is passed over.
func (s *Service) ReplayAll(ctx context.Context, by auditlog.Actor, r ReplayAll) (done Replays, err error) {
	f := r.Filter
	f.TenantID, f.State, f.Limit = by.TenantID, Open, pageSize+1
	if f.After == (ID{}) {
		f.After[15] = 1 // No run has an ID as low.
	}
	passed := r.After
	for tried := 0; ; {
		list, err := s.store.List(ctx, f)
		if err != nil {
			return done, err
		}
		for i := range list[:min(len(list), pageSize)] {
			stop, err := s.replayNext(ctx, by, r, &list[i], &done)
			if err != nil || stop {
				done.Remaining, done.Next = stop, passed
				return done, err
			}
			passed, f.After = list[i].ID, list[i].ID
			if tried++; tried == MaxTried || done.Replayed == r.Limit {
				if done.Remaining = i+1 < len(list); done.Remaining {
					done.Next = passed
				}
				return done, nil
			}
		}
		if len(list) <= pageSize {
			return done, nil
		}
	}
}

// replayNext replays a dead letter and counts it. stop means that others would be refused for the
// same reason for now: the queue of its endpoint is full, or the database is away.
func (s *Service) replayNext(ctx context.Context, by auditlog.Actor, r ReplayAll, l *Letter, done *Replays) (stop bool, err error) {
	one := Replay{NewKey: r.NewKey}
	if r.PerMinute > 0 {
		one.Delay = time.Duration(done.Replayed) * time.Minute / time.Duration(r.PerMinute)
	}
	_, err = s.replay(ctx, by, l, one)
	refused, is := errors.AsType[*errs.Error](err)
	switch {
	case err == nil:
		done.Replayed++
	case !is:
		return false, err
	case refused.Reason != handled:
		done.Refused = append(done.Refused, Refusal{l.ID, refused})
	}
	away := errs.CodeOf(err) == errs.Unavailable && !errors.Is(err, secrets.ErrUnreadable)
	return away || errs.CodeOf(err) == errs.Exhausted, nil
}

const handled = "dead_letter_handled"
