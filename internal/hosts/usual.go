package hosts

import "time"

const (
	// mostResources bounds the resources of a host whose latency is known. Beyond it a new one
	// replaces any other.
	mostResources = 2048
	// usualFew is the least number of answers that make a latency usual, and usualMany is the number
	// of the last answers of which it is the mean.
	usualFew  = 3
	usualMany = 64
)

// usuals are the usual latencies of the resources of a host.
type usuals map[uint64]usual

// usual is the mean latency of the last answers of a resource, of which one counts in each period.
type usual struct {
	mean    time.Duration
	answers int32
	period  int32 // of the last answer that counted
}

// of returns the usual latency of a resource; zero: not known yet.
func (u usuals) of(resource uint64) time.Duration {
	if one := u[resource]; one.answers >= usualFew {
		return one.mean
	}
	return 0
}

// learn counts an answer of a period. held is set at an overload or limit, when neither a rise nor
// the latency of a new resource is a usual one.
func (u usuals) learn(resource uint64, latency time.Duration, period int32, held bool) {
	one, known := u[resource]
	if one.answers >= usualFew && one.period == period || held && (one.answers < usualFew || latency > one.mean) {
		return
	}
	if !known && len(u) >= mostResources {
		for other := range u {
			delete(u, other)
			break
		}
	}
	one.answers = min(one.answers+1, usualMany)
	one.mean += (latency - one.mean) / time.Duration(one.answers)
	one.period = period
	u[resource] = one
}
