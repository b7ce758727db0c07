package tempo

import (
	"math"
	"time"
)

// Looks is a number of looks with the same gap and the same result.
type Looks struct {
	// Gap is the time since the previous look. Looks whose gap is not positive are ignored.
	Gap     time.Duration
	Changed bool
	Count   int64
}

// Likeliest returns the constant rate of change, in changes per second, under which the results of
// looks are most probable. Cho and Garcia-Molina give it for irregular gaps: the r at which the sum
// of g/(e^(rg) - 1) over the looks that found a change is the sum of g over the others.
//
// It is 0 if no look found a change, and infinite if every look did, because looks cannot count
// changes between them. Unlike [Filter.Rate] it knows no jumps of the rate and no assumption before
// the first look, so it is for display. Its last bits differ between architectures.
func Likeliest(list []Looks) float64 {
	var changes, changed, unchanged float64 // A number; seconds before looks of either result.
	for _, l := range list {
		span := max(l.Gap.Seconds(), 0) * float64(l.Count)
		switch {
		case span <= 0:
		case l.Changed:
			changes += float64(l.Count)
			changed += span
		default:
			unchanged += span
		}
	}
	if changes == 0 {
		return 0
	}
	if unchanged == 0 {
		return math.Inf(1)
	}
	// 1/r - g/2 < g/(e^(rg) - 1) < 1/r puts the rate between these bounds. The sum is convex and
	// falls, so Newton's method rises to the rate from the lower one.
	rate, highest := changes/(unchanged+changed/2), changes/unchanged
	for range 200 {
		excess, slope := -unchanged, 0.0
		for _, l := range list {
			if g := l.Gap.Seconds(); l.Changed && g > 0 {
				part := g / math.Expm1(rate*g)
				excess += float64(l.Count) * part
				slope -= float64(l.Count) * part * (g + part) // d/dr of g/(e^rg - 1)
			}
		}
		next := min(rate-excess/slope, highest)
		if !(next > rate*(1+1e-12)) {
			break
		}
		rate = next
	}
	return rate
}
