package tempo

import "math"

// decay returns e^-x for x >= 0, with a relative error below 1e-9. [math.Exp] is assembly on some
// architectures and its last bit differs between them, but a replay must give the same bits on all.
// For the same reason each product is converted explicitly, because a compiler may otherwise fuse
// it with an addition.
func decay(x float64) float64 {
	const log2e, ln2 = 1 / math.Ln2, math.Ln2
	if !(x < 700) { // Also NaN. e^-700 is still a normal number.
		return 0
	}
	n := math.Floor(float64(x*log2e) + 0.5)
	r := float64(n*ln2) - x                // |r| <= ln2/2; x = n ln2 - r
	s := float64(1.0/362880*r) + 1.0/40320 // The Taylor polynomial by Horner's rule, without a loop.
	s = float64(s*r) + 1.0/5040
	s = float64(s*r) + 1.0/720
	s = float64(s*r) + 1.0/120
	s = float64(s*r) + 1.0/24
	s = float64(s*r) + 1.0/6
	s = float64(s*r) + 0.5
	s = float64(s*r) + 1
	s = float64(s*r) + 1
	return float64(s * math.Float64frombits(uint64(1023-int64(n))<<52))
}
