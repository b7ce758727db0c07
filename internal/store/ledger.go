package store

import (
	"time"

	"rubato/internal/governor"
)

// ledgerEntry is the stored input of a decision. It leaves out the baseline, because that follows
// from the endpoint's version.
type ledgerEntry struct {
	Now          time.Time      `json:"now"`
	Cause        governor.Cause `json:"cause"`
	Anchor       *time.Time     `json:"anchor,omitempty"`
	FailureCount int            `json:"failureCount"`
	LastSlot     *time.Time     `json:"lastSlot,omitempty"`
	LastStart    *time.Time     `json:"lastStart,omitempty"`
	PausedUntil  *time.Time     `json:"pausedUntil,omitempty"`
	RetryAfter   *time.Time     `json:"retryAfter,omitempty"`
	RetryAsked   *time.Time     `json:"retryAsked,omitempty"`
	Accounted    *time.Time     `json:"accountedUntil,omitempty"`
	OnRecord     *time.Time     `json:"recordedUntil,omitempty"`
	Hints        *ledgerHints   `json:"hints,omitempty"`
}

type ledgerHints struct {
	Interval *ledgerHint `json:"interval,omitempty"`
	OneShot  *ledgerHint `json:"oneShot,omitempty"`
}

type ledgerHint struct {
	IntervalMs int64      `json:"intervalMs,omitempty"`
	At         *time.Time `json:"at,omitempty"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	// OutageSince is the start of the outage that an interval hint is for.
	OutageSince *time.Time `json:"outageSince,omitempty"`
}

func ledgerInput(in governor.Input) ledgerEntry {
	entry := ledgerEntry{
		Now:          in.Now,
		Cause:        in.Cause,
		Anchor:       optional(in.Anchor),
		FailureCount: in.Failures,
		LastSlot:     optional(in.LastSlot),
		LastStart:    optional(in.LastStart),
		OnRecord:     optional(in.OnRecord),
		PausedUntil:  optional(in.PausedUntil),
		RetryAfter:   optional(in.RetryAfter),
		RetryAsked:   optional(in.RetryAsked),
		Accounted:    optional(in.Accounted),
	}
	if in.IntervalHint == nil && in.OneShot == nil {
		return entry
	}
	entry.Hints = &ledgerHints{}
	if h := in.IntervalHint; h != nil {
		entry.Hints.Interval = &ledgerHint{
			IntervalMs:  h.Interval.Milliseconds(),
			ExpiresAt:   h.ExpiresAt,
			OutageSince: optional(h.OutageSince),
		}
	}
	if h := in.OneShot; h != nil {
		entry.Hints.OneShot = &ledgerHint{At: optional(h.At), ExpiresAt: h.ExpiresAt}
	}
	return entry
}
