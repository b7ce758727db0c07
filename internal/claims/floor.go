package claims

import "time"

const (
	// floorMargin is how far behind the database's time a floor lies at least. Who writes a due time takes it from that clock, and commits it
	// within what the store allows a transaction.
	floorMargin = 10 * time.Second
	// wholeEvery is how often a claim begins at the bottom, where one takes no longer than a hundredth of it: every poll does.
	wholeEvery = 500 * time.Millisecond
	// wholeShare is how many times as long as the shorter of the last two took it is until the next; wholeLatest bounds that. One that had to wait
	// for something else changes nothing.
	wholeShare  = 100
	wholeLatest = 10 * time.Second
)

// Floor is where a worker's claims of the oldest begin. While a transaction is open that sees the table as it was, as a backup does, what
// was claimed and finished since cannot be removed, and a claim that begins at the bottom steps over all of it: longer with every run. The
// floor is the instant up to which the claims before it have left nothing.
//
// Nothing is lost behind it. What is registered, hinted or asked for comes due no sooner than it is written, which is above the floor. What
// comes back at its old due time (given back, taken from a silent worker, passed over while somebody else had it locked) is found by the
// next claim from the bottom: at the next poll, or within ten seconds where such a claim is slow.
//
// The zero value begins at the bottom. A Floor is not safe for concurrent use.
type Floor struct {
	at    time.Time        // database time; zero: nothing is known
	whole time.Time        // when the last claim from the bottom was sent
	took  [2]time.Duration // how long that and the one before took
}

// Begin says where a claim begins that is sent now: at the floor, or at the bottom when it is time for that. Shares have heads of their own.
func (f *Floor) Begin(r *Request) {
	r.From = time.Time{}
	if len(r.Tenants) == 0 && time.Since(f.whole) < min(max(wholeEvery, wholeShare*min(f.took[0], f.took[1])), wholeLatest) {
		r.From = f.at
	}
}

// Ended takes in what a claim found that was sent at an instant of this process; now is the database's time that it told. One that came
// to nothing told none, and list is empty.
func (f *Floor) Ended(r Request, list []Claim, now, sent time.Time) {
	if len(r.Tenants) > 0 || r.Limit == 0 {
		return // It has not looked at what is oldest.
	}
	if r.From.IsZero() {
		f.whole, f.took = sent, [2]time.Duration{time.Since(sent), f.took[0]}
	}
	if now.IsZero() {
		return
	}
	f.at = now.Add(-floorMargin)
	if len(list) < r.Limit {
		return
	}
	for _, c := range list { // What else is there comes due no sooner than the first of them.
		if c.PlannedAt.Before(f.at) {
			f.at = c.PlannedAt
		}
	}
}
