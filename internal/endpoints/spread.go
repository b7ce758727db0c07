package endpoints

import (
	"hash/fnv"
	"time"

	"rubato/internal/governor"
)

// spread gives a new interval endpoint a phase of its own, so that endpoints that are registered
// together do not run together. The phase is a hash of the key, or of the ID if there is no key, so
// that a repeated registration gets the same phase. The anchor is the grid point before the first
// run. A cron keeps its grid, and an endpoint with StartAt keeps its start.
func (e *Endpoint) spread(now time.Time) {
	if e.Spec.BaselineInterval == 0 || !e.Spec.StartAt.IsZero() {
		return
	}
	period := governor.Clamp(e.Spec.BaselineInterval, e.Spec.MinInterval, e.Spec.MaxInterval)
	phase := time.Duration(e.phase()%uint64(period.Milliseconds())) * time.Millisecond
	late := time.Duration((now.UnixMilli()-phase.Milliseconds())%period.Milliseconds()) * time.Millisecond
	e.State.Anchor = now.Truncate(time.Millisecond).Add(-late)
}

// phase returns a stable hash of the endpoint's identity. Similar keys get distant values.
func (e *Endpoint) phase() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(e.TenantID[:]) // A hash never fails.
	if e.Spec.Key != "" {
		_, _ = h.Write([]byte(e.Spec.Key))
	} else {
		_, _ = h.Write(e.ID[:])
	}
	x := h.Sum64() // FNV spreads the last bytes of similar keys over few bits, so the finalizer mixes them into all bits.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
