package endpoints

import (
	"hash/fnv"
	"time"

	"rubato/internal/governor"
)

// spread gives a new endpoint with an interval a grid of its own, so that many that are registered together do not run together. Its
// phase follows from the key, or from the ID where it has none: whoever registers it again gets the same one. The governor counts from
// the grid point before the first run as it would from a run. A cron keeps its grid, and a startAt is what the user asked for.
func (e *Endpoint) spread(now time.Time) {
	if e.Spec.BaselineInterval == 0 || !e.Spec.StartAt.IsZero() {
		return
	}
	period := governor.Clamp(e.Spec.BaselineInterval, e.Spec.MinInterval, e.Spec.MaxInterval)
	phase := time.Duration(e.phase()%uint64(period.Milliseconds())) * time.Millisecond //nolint:gosec // Below the period.
	late := time.Duration((now.UnixMilli()-phase.Milliseconds())%period.Milliseconds()) * time.Millisecond
	e.State.Anchor = now.Truncate(time.Millisecond).Add(-late)
}

// phase returns a number that is the same whenever the endpoint is registered, and far apart for keys that are alike.
func (e *Endpoint) phase() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(e.TenantID[:]) // A hash never fails.
	if e.Spec.Key != "" {
		_, _ = h.Write([]byte(e.Spec.Key))
	} else {
		_, _ = h.Write(e.ID[:])
	}
	x := h.Sum64() // FNV leaves the last bytes of alike keys in few bits; mixing brings them to all.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
