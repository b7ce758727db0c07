package claims

import "time"

const (
	// lowWaterMargin is the minimum distance of a low-water mark behind the database's time. A due
	// time is read from that clock before its transaction commits, and the store bounds the
	// duration of a transaction.
	lowWaterMargin = 10 * time.Second
	// fullEvery is the minimum time between full scans, which start at the low end of the index. It
	// applies if a full scan takes less than a hundredth of it. Then every poll at the default
	// interval is a full scan.
	fullEvery = 500 * time.Millisecond
	// scanShare is the time until the next full or wide scan, as a multiple of the shorter duration
	// of the last two. fullLatest and wideLatest bound it. The shorter one counts, so that a single
	// delayed scan changes nothing.
	scanShare  = 100
	fullLatest = 5 * time.Minute
	// wideReach is how far before the low-water mark a wide scan starts.
	wideReach  = time.Minute
	wideLatest = 10 * time.Second
)

// LowWaterMark is the low-water mark of claims on due_at. Claims scan the index from it, so that
// they skip dead tuples that an old snapshot keeps, e.g. the snapshot of a backup. A scan from the
// low end of the index would visit more of these dead tuples after every run (MVCC bloat). Earlier
// claims have left no endpoint below the low-water mark.
//
// No due time below the low-water mark is lost. New, hinted and requested runs come due no earlier
// than they are written, which is above the low-water mark. Some rows come back at an old due time:
// released claims, claims of a silent worker, and rows skipped because another transaction had
// locked them. The next full scan finds them, at the next poll. If full scans are slow, a wide scan
// finds them within ten seconds, and a full scan those that are more than a minute below the mark.
//
// The zero value starts with a full scan. A LowWaterMark is not safe for concurrent use.
type LowWaterMark struct {
	at         time.Time // database time; zero: unknown
	full, wide scans
}

// scans are the scans of one kind.
type scans struct {
	sent time.Time // of the last one
	// took holds the durations of the last two, newest first.
	took [2]time.Duration
}

// due reports whether another scan is due.
func (s *scans) due(latest time.Duration) bool {
	return time.Since(s.sent) >= min(max(fullEvery, scanShare*min(s.took[0], s.took[1])), latest)
}

func (s *scans) ended(sent time.Time) {
	s.sent, s.took = sent, [2]time.Duration{time.Since(sent), s.took[0]}
}

// Begin sets From of a request that is sent now: the low-water mark, or an earlier instant if a
// wide scan is due, or zero if a full scan is due. Shares scan another index, therefore they ignore
// the low-water mark.
func (m *LowWaterMark) Begin(r *Request) {
	switch {
	case len(r.Tenants) > 0 || m.at.IsZero() || m.full.due(fullLatest):
		r.From = time.Time{}
	case m.wide.due(wideLatest):
		r.From = m.at.Add(-wideReach)
	default:
		r.From = m.at
	}
}

// Ended updates the low-water mark after a claim that was sent at an instant of this process. now
// is the database's time that the claim returned. A failed claim returned neither time nor list.
func (m *LowWaterMark) Ended(r Request, list []Claim, now, sent time.Time) {
	if len(r.Tenants) > 0 || r.Limit == 0 {
		return // The claim did not scan the oldest endpoints.
	}
	switch {
	case r.From.IsZero():
		m.full.ended(sent)
		m.wide.sent = sent // A full scan is a wide one too.
	case r.From.Before(m.at):
		m.wide.ended(sent)
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
