package history

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/store/pg"
)

// LedgerEntry is the stored input of a decision. It leaves out the baseline, because that follows
// from the endpoint's version.
type LedgerEntry struct {
	Now          time.Time      `json:"now"`
	Cause        governor.Cause `json:"cause"`
	Anchor       *time.Time     `json:"anchor,omitempty"`
	FailureCount int            `json:"failureCount"`
	LastSlot     *time.Time     `json:"lastSlot,omitempty"`
	LastStart    *time.Time     `json:"lastStart,omitempty"`
	EndAt        *time.Time     `json:"endAt,omitempty"`
	PausedUntil  *time.Time     `json:"pausedUntil,omitempty"`
	RetryAfter   *time.Time     `json:"retryAfter,omitempty"`
	RetryAsked   *time.Time     `json:"retryAsked,omitempty"`
	OpenUntil    *time.Time     `json:"openUntil,omitempty"`
	TargetNext   *time.Time     `json:"targetNext,omitempty"`
	FreshUntil   *time.Time     `json:"freshUntil,omitempty"`
	Accounted    *time.Time     `json:"accountedUntil,omitempty"`
	OnRecord     *time.Time     `json:"recordedUntil,omitempty"`
	QueuedUntil  *time.Time     `json:"queuedUntil,omitempty"`
	ChangeRate   *ledgerRate    `json:"changeRate,omitempty"`
	Hints        *ledgerHints   `json:"hints,omitempty"`
}

// ledgerRate is the stored input of the rule on the rate of change.
type ledgerRate struct {
	WaitMs        int64   `json:"waitMs"`
	RatePerSecond float64 `json:"ratePerSecond"`
	Price         float64 `json:"price"`
	Budget        string  `json:"budget,omitempty"`
	UsedUp        bool    `json:"usedUp,omitempty"`
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

// LedgerInput returns the columns of a decision input for the ledger.
func LedgerInput(in governor.Input) LedgerEntry {
	entry := LedgerEntry{
		Now:          in.Now,
		Cause:        in.Cause,
		Anchor:       pg.Optional(in.Anchor),
		FailureCount: in.Failures,
		LastSlot:     pg.Optional(in.LastSlot),
		LastStart:    pg.Optional(in.LastStart),
		OnRecord:     pg.Optional(in.OnRecord),
		EndAt:        pg.Optional(in.EndAt),
		PausedUntil:  pg.Optional(in.PausedUntil),
		RetryAfter:   pg.Optional(in.RetryAfter),
		RetryAsked:   pg.Optional(in.RetryAsked),
		OpenUntil:    pg.Optional(in.OpenUntil),
		TargetNext:   pg.Optional(in.TargetNext),
		FreshUntil:   pg.Optional(in.FreshUntil),
		Accounted:    pg.Optional(in.Accounted),
		QueuedUntil:  pg.Optional(in.QueuedUntil),
	}
	if c := in.ChangeRate; c != nil {
		entry.ChangeRate = &ledgerRate{
			WaitMs:        c.Wait.Milliseconds(),
			RatePerSecond: c.Rate,
			Price:         c.Price,
			Budget:        c.Budget,
			UsedUp:        c.UsedUp,
		}
	}
	if in.IntervalHint == nil && in.OneShot == nil {
		return entry
	}
	entry.Hints = &ledgerHints{}
	if h := in.IntervalHint; h != nil {
		entry.Hints.Interval = &ledgerHint{
			IntervalMs:  h.Interval.Milliseconds(),
			ExpiresAt:   h.ExpiresAt,
			OutageSince: pg.Optional(h.OutageSince),
		}
	}
	if h := in.OneShot; h != nil {
		entry.Hints.OneShot = &ledgerHint{At: pg.Optional(h.At), ExpiresAt: h.ExpiresAt}
	}
	return entry
}
