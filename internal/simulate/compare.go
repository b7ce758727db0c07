package simulate

import (
	"math"
	"time"
)

// phases is the number of phases of a fixed interval over which its delays are averaged.
const phases = 8

// fixedDelays returns the sum of the delays of a fixed interval, in milliseconds, as a mean over
// its phases. A look that fails detects nothing.
func fixedDelays(t *target, every, length time.Duration) float64 {
	if every <= 0 {
		return 0
	}
	var sum float64
	for phase := range phases {
		first := every * time.Duration(2*phase+1) / (2 * phases)
		for _, change := range t.changes {
			look := first
			if change > first {
				look += (change - first + every - 1).Truncate(every)
			}
			for look < length && t.fails(look) {
				look += every
			}
			sum += milliseconds(min(look, length) - change)
		}
	}
	return sum / phases
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// clairvoyant is a policy that knows the present rate of change, but not the changes. It looks as
// soon as the index law says so at a price: when the integral of rate times time since the last
// look reaches it.
type clairvoyant struct {
	target            *target
	length            time.Duration
	shortest, longest time.Duration
}

// looks calls look with the time of each look.
func (c *clairvoyant) looks(price float64, look func(at time.Duration)) {
	low, high, end := c.shortest.Seconds(), c.longest.Seconds(), c.length.Seconds()
	var last, at, worth float64 // in seconds; worth is that of a look now
	for i := 0; i < len(c.target.rates); {
		e := c.target.rates[i]
		until, since := e.until.Seconds(), at-last
		next := last + high
		if left := max(price-worth, 0); e.rate > 0 {
			next = min(next, last+math.Sqrt(since*since+2*left/e.rate))
		} else if left == 0 {
			next = at
		}
		next = max(next, last+low)
		if next < until {
			look(time.Duration(next * float64(time.Second)))
			last, at, worth = next, next, 0
			continue
		}
		worth += e.rate * ((until-last)*(until-last) - since*since) / 2
		at = until
		if i++; at >= end {
			return
		}
	}
}

// delays returns the sum of the delays at a price, in milliseconds.
func (c *clairvoyant) delays(price float64) (sum float64) {
	next, changes := 0, c.target.changes
	c.looks(price, func(at time.Duration) {
		if c.target.fails(at) {
			return
		}
		for ; next < len(changes) && changes[next] <= at; next++ {
			sum += milliseconds(at - changes[next])
		}
	})
	for ; next < len(changes); next++ {
		sum += milliseconds(c.length - changes[next])
	}
	return sum
}

// clairvoyantDelays returns the sum of the delays of clairvoyant policies that share a price at
// which they make a number of polls in total, in milliseconds for each policy.
func clairvoyantDelays(policies []clairvoyant, polls int64) []float64 {
	low, high := 1e-9, 1e12
	price := 1.0
	for range 60 {
		var n int64
		for i := range policies {
			policies[i].looks(price, func(time.Duration) { n++ })
		}
		if float64(n) > float64(polls) {
			low = price
		} else {
			high = price
		}
		if off := math.Abs(float64(n-polls)) / float64(max(polls, 1)); off < 1e-3 || high/low < 1+1e-6 {
			break
		}
		// The number of polls is about proportional to 1/sqrt(price).
		ratio := float64(max(n, 1)) / float64(max(polls, 1))
		if next := price * ratio * ratio; next > low && next < high {
			price = next
		} else {
			price = math.Sqrt(low * high)
		}
	}
	sums := make([]float64, len(policies))
	for i := range policies {
		sums[i] = policies[i].delays(price)
	}
	return sums
}
