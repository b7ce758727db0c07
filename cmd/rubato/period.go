package main

import "time"

// period is a range of time in the past. Each end is an instant or a duration before now.
type period struct {
	From  time.Time      `xor:"from" placeholder:"TIME" help:"Start of the time range, such as 2026-03-01T12:00:00Z."`
	Since *time.Duration `xor:"from" placeholder:"DURATION" help:"Start of the time range, as a duration before now, such as 1h or 2d."`
	To    time.Time      `xor:"to" placeholder:"TIME" help:"End of the time range."`
	Until *time.Duration `xor:"to" placeholder:"DURATION" help:"End of the time range, as a duration before now."`
}

// bounds returns the ends in UTC; an absent end is nil.
func (p period) bounds(now time.Time) (from, to *time.Time) {
	from, to = since(p.From), since(p.To)
	if p.Since != nil {
		from = since(now.Add(-*p.Since))
	}
	if p.Until != nil {
		to = since(now.Add(-*p.Until))
	}
	return from, to
}
