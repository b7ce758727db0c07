package tempo

import (
	"math"
	"time"
)

// Wait returns the wait after a look by the index law: the T at which
//
//	T N(T) - integral of N from 0 to T = price,
//
// where N(s) is the expected number of changes s after the look. The left side is the time that
// these changes will have waited in sum if the next look is at T less what an earlier look would
// have saved, so that all endpoints that share a price look when a run is worth the same. At a
// constant rate r it is sqrt(2 price / r). The result lies between shortest and longest. price is
// in change-seconds.
func (f *Filter) Wait(price float64, shortest, longest time.Duration) time.Duration {
	law := f.law()
	low, high := shortest.Seconds(), longest.Seconds()
	if high <= low || law.cost(low) >= price {
		return shortest
	}
	if law.cost(high) <= price {
		return longest
	}
	// cost rises with T, so Newton's method is safe inside a bracket that bisection keeps.
	t := min(max(math.Sqrt(float64(2*price)/law.rate), low), high)
	for range 40 {
		cost := law.cost(t)
		if cost > price {
			high = t
		} else {
			low = t
		}
		step := (cost - price) / float64(t*law.slope(t))
		next := t - step
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		if math.Abs(next-t) < 1e-4*t {
			t = next
			break
		}
		t = next
	}
	return min(max(time.Duration(t*1e3)*time.Millisecond, shortest), longest)
}

// Worth returns what a look is worth after a wait since the previous one, in change-seconds: the
// index that the law compares with the price.
func (f *Filter) Worth(wait time.Duration) float64 {
	law := f.law()
	return law.cost(wait.Seconds())
}

// law is the expected number of changes after a look: the rate relaxes from the present one to the
// long-run one, for each hazard.
type law struct {
	// rate is the present rate.
	rate float64
	// base is the long-run rate.
	base float64
	// excess is weight times (present rate - long-run rate), for each hazard.
	excess [Hazards]float64
}

func (f *Filter) law() law {
	l := law{base: f.LongRunRate()}
	var sum float64
	for h, w := range f.Weight {
		l.excess[h] = float64(float64(w) * (mean(&f.Now[h]) - l.base))
		sum += l.excess[h]
	}
	l.rate = max(l.base+sum, slowest)
	return l
}

// cost returns T N(T) - integral of N.
func (l *law) cost(t float64) float64 {
	sum := float64(l.base * float64(t*t) / 2)
	for h, hazard := range hazards {
		x := float64(hazard * t)
		var part float64 // (1 - e^-x - x e^-x) / hazard^2
		if x < 1e-3 {
			part = float64(t*t) * (0.5 - x/3) // The difference of close numbers would lose its digits.
		} else {
			e := decay(x)
			part = (1 - e - float64(x*e)) / float64(hazard*hazard)
		}
		sum += float64(l.excess[h] * part)
	}
	return sum
}

// slope returns the expected rate at t, which is the derivative of cost divided by t.
func (l *law) slope(t float64) float64 {
	sum := l.base
	for h, hazard := range hazards {
		sum += float64(l.excess[h] * decay(float64(hazard*t)))
	}
	return max(sum, slowest/16)
}

// Expected returns the expected number of changes between a look and an instant so long after it.
func (f *Filter) Expected(wait time.Duration) float64 {
	law, t := f.law(), wait.Seconds()
	sum := float64(law.base * t)
	for h, hazard := range hazards {
		sum += float64(law.excess[h] * (1 - decay(float64(hazard*t))) / hazard)
	}
	return max(sum, 0)
}
