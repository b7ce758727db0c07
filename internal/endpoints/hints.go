package endpoints

import (
	"context"
	"slices"
	"time"

	"rubato/internal/errs"
	"rubato/internal/governor"
)

// MaxHintLife is the maximum lifetime of a hint of any author. It is short, so that a hint without
// a renewal ends by itself.
const MaxHintLife = 24 * time.Hour

const (
	minHintSpan  = time.Second
	maxSpan      = 366 * 24 * time.Hour // bound of a hint's interval, and of how far ahead hints and pauses reach
	requiredLife = "say how long the hint holds: exactly one of ttlMs and expiresAt"
)

// HintRequest is the request for a hint. Exactly one of TTL and ExpiresAt gives its lifetime. A
// one-shot hint gives its instant by exactly one of At and In.
type HintRequest struct {
	// Interval is set for an interval hint.
	Interval time.Duration
	// At is the instant of a one-shot hint; zero: not given.
	At time.Time
	// In is the delay of a one-shot hint from now; nil: not given.
	In *time.Duration
	// TTL is the lifetime from now; nil: not given.
	TTL *time.Duration
	// ExpiresAt is the end of the lifetime; zero: not given.
	ExpiresAt time.Time
	Reason    string
	// OutageSince is the start of an outage that the interval hint is about; zero: an ordinary
	// hint. Only the planner sets it.
	OutageSince time.Time
}

// SetIntervalHint proposes another interval and replaces an earlier interval hint. The hint is in
// force when the call returns. The fields returned are warnings.
func (s *Service) SetIntervalHint(ctx context.Context, by Actor, id ID, r HintRequest) (*Endpoint, []errs.Field, error) {
	return s.hint(ctx, by, id, func(e *Endpoint, now time.Time) ([]errs.Field, error) {
		h, err := r.interval(now)
		h.Author = by.Name
		e.State.IntervalHint = &h
		return append(e.Spec.clampWarnings(h), h.endWarnings(laterOf(now.Add(h.Interval), e.Spec.StartAt))...), err
	})
}

// SetOneShotHint proposes one run at an instant and replaces an earlier one-shot hint. The hint is
// in force when the call returns. The fields returned are warnings.
func (s *Service) SetOneShotHint(ctx context.Context, by Actor, id ID, r HintRequest) (*Endpoint, []errs.Field, error) {
	return s.hint(ctx, by, id, func(e *Endpoint, now time.Time) ([]errs.Field, error) {
		h, err := r.oneShot(now)
		h.Author = by.Name
		e.State.OneShotHint = &h
		if err != nil {
			return nil, err
		}
		if used := e.usedWarnings(h); used != nil {
			return used, nil
		}
		moved, err := e.oneShotWarnings(now)
		return append(moved, h.endWarnings(h.At)...), err
	})
}

// CheckInterval returns the error that SetIntervalHint would return at now. It stores nothing.
func (r HintRequest) CheckInterval(now time.Time) error {
	_, err := r.interval(now)
	return err
}

// CheckOneShot returns the error that SetOneShotHint would return at now. It stores nothing.
func (r HintRequest) CheckOneShot(now time.Time) error {
	_, err := r.oneShot(now)
	return err
}

// ClearHints removes both hints, and names each one that was in force, its author and its end. The
// baseline is in force when the call returns. The planner must not repeat a removed hint of its own
// for [HoldLife].
func (s *Service) ClearHints(ctx context.Context, by Actor, id ID) (*Endpoint, []errs.Field, error) {
	var warnings []errs.Field
	e, err := s.change(ctx, by, id, CauseHint, func(e *Endpoint, now time.Time) error {
		removed := e.clear(now, by, func(string, *Hint) bool { return true })
		if len(removed) == 0 {
			removed = []errs.Field{{
				Field:   "hints",
				Code:    "nothing_in_force",
				Message: "no hint was in force, so nothing was removed",
			}}
		}
		warnings = append(e.Warnings(now), removed...)
		return nil
	})
	return e, warnings, err
}

// hint sets a hint, and adds the warnings of set to those of the endpoint.
func (s *Service) hint(ctx context.Context, by Actor, id ID, set func(*Endpoint, time.Time) ([]errs.Field, error)) (*Endpoint, []errs.Field, error) {
	var warnings []errs.Field
	e, err := s.change(ctx, by, id, CauseHint, func(e *Endpoint, now time.Time) error {
		more, err := set(e, now)
		warnings = append(e.Warnings(now), more...)
		return err
	})
	return e, warnings, err
}

// clampWarnings warns if a clamp changes an interval hint.
func (s Spec) clampWarnings(h Hint) []errs.Field {
	if governor.Clamp(h.Interval, s.MinInterval, s.MaxInterval) == h.Interval {
		return nil
	}
	return []errs.Field{{
		Field:   "intervalMs",
		Code:    "hint_clamped",
		Message: "lies outside minIntervalMs and maxIntervalMs; the clamp decides instead",
	}}
}

// oneShotWarnings warns if a clamp moves the run of a one-shot hint. During a live run it assumes
// that the run ends now, because the finish decides.
func (e *Endpoint) oneShotWarnings(now time.Time) ([]errs.Field, error) {
	probe := *e
	var decided Recorded
	var err error
	if probe.State.Running != nil {
		decided, err = probe.endNow(now)
	} else {
		decided, err = probe.Replan(now)
	}
	if err != nil || !decided.clampsOneShot() {
		return nil, err
	}
	return []errs.Field{{
		Field: "at", Code: "hint_clamped",
		Message: "lies closer to the run before, or farther from it, than minIntervalMs and maxIntervalMs allow; the clamp decides instead",
	}}, nil
}

// usedWarnings warns if a one-shot hint lies before the last served due time, because it never
// causes a run then.
func (e *Endpoint) usedWarnings(h Hint) []errs.Field {
	served := e.State.LastSlot
	if live := e.State.Running; live != nil {
		served = laterOf(served, live.Slot)
	}
	if h.At.After(served) {
		return nil
	}
	return []errs.Field{{
		Field: "at", Code: "hint_used",
		Message: "does not lie after the last due time that was served, " + served.Format(time.RFC3339Nano) + ", so no run comes of it; name a later instant, or ask for a run now",
	}}
}

// clampsOneShot reports whether a clamp overrode a one-shot hint.
func (r Recorded) clampsOneShot() bool {
	clamped := r.Decision.Source == governor.SourceClampedMin || r.Decision.Source == governor.SourceClampedMax
	return clamped && slices.ContainsFunc(r.Decision.Steps, func(s governor.Step) bool { return s.Rule == governor.RuleAIOneShot })
}

// endWarnings warns if a hint expires before the run that it asks for. That run stays planned
// unless another decision comes first, because a hint counts at the decision and not at the due
// time.
func (h Hint) endWarnings(due time.Time) []errs.Field {
	if due.Before(h.ExpiresAt) {
		return nil
	}
	return []errs.Field{{
		Field: "expiresAt", Code: "hint_ends_early",
		Message: "lies before the run that the hint asks for; that run stays as planned only where nothing is decided again until then",
	}}
}

func (r HintRequest) interval(now time.Time) (Hint, error) {
	h, bad := r.life(now)
	if r.Interval < minHintSpan || r.Interval > maxSpan {
		bad = append(bad, errs.Field{
			Field:   "intervalMs",
			Code:    "out_of_range",
			Message: "must be 1000 (a second) to 31622400000 (366 days)",
		})
	}
	h.Interval, h.OutageSince = r.Interval, r.OutageSince.UTC()
	return h, errs.InvalidFields(bad)
}

func (r HintRequest) oneShot(now time.Time) (Hint, error) {
	h, bad := r.life(now)
	at, wrong := r.instant(now)
	h.At = at
	return h, errs.InvalidFields(append(bad, wrong...))
}

// life returns a hint with the requested lifetime from now.
func (r HintRequest) life(now time.Time) (Hint, []errs.Field) {
	h := Hint{
		ExpiresAt: r.ExpiresAt.UTC().Truncate(time.Millisecond),
		Reason:    r.Reason,
		CreatedAt: now,
	}
	bad := checkReason(r.Reason)
	switch {
	case r.TTL != nil && !r.ExpiresAt.IsZero():
		return h, append(bad, errs.Field{
			Field:   "expiresAt",
			Code:    "ambiguous",
			Message: requiredLife,
		})
	case r.TTL != nil:
		if *r.TTL <= 0 || *r.TTL > MaxHintLife {
			return h, append(bad, errs.Field{
				Field:   "ttlMs",
				Code:    "out_of_range",
				Message: "must be 1 to 86400000 (24 hours)",
			})
		}
		h.ExpiresAt = now.Add(*r.TTL)
	case r.ExpiresAt.IsZero():
		return h, append(bad, errs.Field{
			Field:   "ttlMs",
			Code:    "required",
			Message: requiredLife,
		})
	case !h.ExpiresAt.After(now) || h.ExpiresAt.After(now.Add(MaxHintLife)):
		return h, append(bad, errs.Field{
			Field:   "expiresAt",
			Code:    "out_of_range",
			Message: "must lie in the future, at most 24 hours from now",
		})
	}
	return h, bad
}

// instant returns the instant of a one-shot hint.
func (r HintRequest) instant(now time.Time) (time.Time, []errs.Field) {
	switch {
	case r.In != nil && !r.At.IsZero():
		return time.Time{}, []errs.Field{{
			Field:   "at",
			Code:    "ambiguous",
			Message: "name the instant once: exactly one of at and inMs",
		}}
	case r.In != nil:
		if *r.In < 0 || *r.In > maxSpan {
			return time.Time{}, []errs.Field{{
				Field:   "inMs",
				Code:    "out_of_range",
				Message: "must be 0 to 31622400000 (366 days)",
			}}
		}
		return now.Add(*r.In), nil
	case r.At.IsZero():
		return time.Time{}, []errs.Field{{
			Field:   "at",
			Code:    "required",
			Message: "name the instant: exactly one of at and inMs",
		}}
	case r.At.Before(now.Add(-time.Minute)) || r.At.After(now.Add(maxSpan)):
		return time.Time{}, []errs.Field{{
			Field:   "at",
			Code:    "out_of_range",
			Message: "must not lie in the past, and at most 366 days from now",
		}}
	default:
		return r.At.UTC().Truncate(time.Millisecond), nil
	}
}
