package hosts

import "time"

// witnesses are the two endpoints that a host last turned away, the latest first. One endpoint is
// not its host, because a limit may be that of one resource. Therefore a host is held or throttled
// once it turned away two endpoints. The zero value is ready.
type witnesses [2]witness

// witness is an endpoint that its host turned away.
type witness struct {
	endpoint [16]byte
	// until is the instant at which the event no longer counts.
	until time.Time
}

// add records that the host turned an endpoint away. It reports whether an event of another
// endpoint still counts.
func (w *witnesses) add(now time.Time, endpoint [16]byte, until time.Time) bool {
	if w[0].endpoint != endpoint {
		w[1] = w[0]
	}
	w[0] = witness{
		endpoint: endpoint,
		until:    until,
	}
	return w[1].until.After(now)
}

// past reports whether no event counts any more.
func (w *witnesses) past(now time.Time) bool {
	return !w[0].until.After(now) && !w[1].until.After(now)
}
