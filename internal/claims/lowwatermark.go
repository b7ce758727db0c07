package claims

import "time"

const (
	// lowWaterMargin is the minimum distance of a low-water mark behind the database's time. A due
	// time is read from that clock before its transaction commits, and the store bounds the
	// duration of a transaction.
	lowWaterMargin = 10 * time.Second
	// wholeEvery is the minimum time between full scans, which start at the low end of the index.
	// It applies if a full scan takes less than a hundredth of it. Then every poll at the default
	// interval is a full scan.
	wholeEvery = 500 * time.Millisecond
	// wholeShare is the time until the next full scan, as a multiple of the shorter duration of the
	// last two. wholeLatest bounds it. The shorter one counts, so that a single delayed scan
	// changes nothing.
	wholeShare  = 100
	wholeLatest = 10 * time.Second
)

// LowWaterMark is the low-water mark of claims on due_at. Claims scan the index from it, so that
// they skip dead tuples that an old snapshot keeps, e.g. the snapshot of a backup. A scan from the
// low end of the index would visit more of these dead tuples after every run (MVCC bloat). Earlier
// claims have left no endpoint below the low-water mark.
//
// No due time below the low-water mark is lost. New, hinted and requested runs come due no earlier
// than they are written, which is above the low-water mark. Some rows come back at an old due time:
// released claims, claims of a silent worker, and rows skipped because another transaction had
// locked them. The next full scan finds them, at the next poll, or within ten seconds if full scans
// are slow.
//
// The zero value starts with a full scan. A LowWaterMark is not safe for concurrent use.
type LowWaterMark struct {
	at time.Time // database time; zero: unknown
	// whole is when the last full scan was sent.
	whole time.Time
	// took holds the durations of the last two full scans, newest first.
	took [2]time.Duration
}

// Begin sets From of a request that is sent now: the low-water mark, or zero if a full scan is due.
// Shares scan another index, therefore they ignore the low-water mark.
func (m *LowWaterMark) Begin(r *Request) {
	r.From = time.Time{}
	if len(r.Tenants) == 0 && time.Since(m.whole) < min(max(wholeEvery, wholeShare*min(m.took[0], m.took[1])), wholeLatest) {
		r.From = m.at
	}
}

// Ended updates the low-water mark after a claim that was sent at an instant of this process. now
// is the database's time that the claim returned. A failed claim returned neither time nor list.
func (m *LowWaterMark) Ended(r Request, list []Claim, now, sent time.Time) {
	if len(r.Tenants) > 0 || r.Limit == 0 {
		return // The claim did not scan the oldest endpoints.
	}
	if r.From.IsZero() {
		m.whole, m.took = sent, [2]time.Duration{time.Since(sent), m.took[0]}
	}
	if now.IsZero() {
		return
	}
	m.at = now.Add(-lowWaterMargin)
	if len(list) < r.Limit {
		return
	}
	// The list is full. Endpoints that it left behind have no earlier turn than its oldest claim.
	// Those of low priority come due up to one step before their turn, which the claim knows.
	for _, c := range list {
		if turn := c.turn(); turn.Before(m.at) {
			m.at = turn
		}
	}
}
