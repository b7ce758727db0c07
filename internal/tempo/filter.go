package tempo

import "time"

// Size of the filter.
const (
	// Rates is the number of rates of change that the filter tells apart.
	Rates = 16
	// Hazards is the number of speeds at which the rate itself may change.
	Hazards = 3
)

// The grid: from a change in four hours to a change in 1.5 s.
const (
	// slowest is the slowest rate, in changes per second.
	slowest = 1.0 / (4 * 3600)
	// step is the ratio of neighbouring rates, the 15th root of 9600.
	step = 1.8428277732030718
)

// hazards are the assumed frequencies, per second, at which the rate jumps to another value: every
// four minutes, every twenty minutes, every three hours.
var hazards = [Hazards]float64{1.0 / 240, 1.0 / 1200, 1.0 / 10800}

// rates is the grid of rates of change per second, in equal steps of their logarithm.
var rates = func() (grid [Rates]float64) {
	l := slowest
	for j := range grid {
		grid[j] = l
		l *= step
	}
	return grid
}()

const (
	// learnIn is the time in seconds in which the filter learns the long-run distribution of rates.
	learnIn = 7200
	// learnMost bounds the weight of one look for the long-run distribution.
	learnMost = 0.02
	// longestGap bounds the gap of a look in seconds: a week. Far beyond it, every likelihood is
	// zero.
	longestGap = 7 * 24 * 3600
	// least is the lowest probability of a rate. Without it a rate could never return.
	least = 1e-9
)

// Filter is a distribution over the rate of change of an endpoint's answers. It assumes that
// changes are a Poisson process whose rate jumps now and then to a value drawn from a long-run
// distribution, which the filter learns. Three frequencies of such jumps are weighed by their
// likelihood.
//
// Numbers are stored in single precision, so that a stored filter is equal to the one in memory.
// The zero value is not ready; see [NewFilter].
type Filter struct {
	// Now is the distribution over the grid of rates, for each hazard; each sums to 1.
	Now [Hazards][Rates]float32
	// LongRun is the distribution of rates over the past hours; it sums to 1.
	LongRun [Rates]float32
	// Weight is the probability of each hazard; it sums to 1.
	Weight [Hazards]float32
}

// NewFilter returns a filter without knowledge: each rate of the grid and each hazard is equally
// probable.
func NewFilter() Filter {
	var f Filter
	for j := range f.LongRun {
		f.LongRun[j] = 1.0 / Rates
	}
	for h := range f.Now {
		f.Now[h], f.Weight[h] = f.LongRun, 1.0/Hazards
	}
	return f
}

// Observe updates the filter by a look: changed says whether the answer differed from the previous
// look, gap before this one. A gap that is not positive says nothing. Observe does not allocate.
func (f *Filter) Observe(gap time.Duration, changed bool) {
	g := min(gap.Seconds(), longestGap)
	if g <= 0 {
		return
	}
	var like [Rates]float64
	for j, l := range rates {
		like[j] = decay(l * g)
		if changed {
			like[j] = 1 - like[j]
		}
	}
	var mixed [Rates]float64
	var weights [Hazards]float64
	for h, hazard := range hazards {
		weights[h] = float64(float64(f.Weight[h]) * f.update(h, decay(hazard*g), &like))
	}
	normalise(weights[:])
	for h := range f.Weight {
		f.Weight[h] = float32(weights[h])
		for j, p := range f.Now[h] {
			mixed[j] += float64(float64(f.Weight[h]) * float64(p))
		}
	}
	f.learn(min(g/learnIn, learnMost), &mixed)
}

// update applies a look to the distribution of one hazard, and returns the look's probability. stay
// is the probability that the rate did not jump since the previous look.
func (f *Filter) update(h int, stay float64, like *[Rates]float64) float64 {
	var sum float64
	var next [Rates]float64
	for j, p := range f.Now[h] {
		prior := float64(float64(p)*stay) + float64((1-stay)*float64(f.LongRun[j]))
		next[j] = float64(prior * like[j])
		sum += next[j]
	}
	for j := range next {
		f.Now[h][j] = float32(max(next[j]/sum, least))
	}
	return sum
}

// learn moves the long-run distribution towards the present one.
func (f *Filter) learn(weight float64, mixed *[Rates]float64) {
	for j := range f.LongRun {
		q := float64(float64(f.LongRun[j])*(1-weight)) + float64(weight*mixed[j])
		f.LongRun[j] = float32(max(q, least))
	}
}

// normalise scales probabilities so that they sum to 1 and none is below the least.
func normalise(p []float64) {
	var sum float64
	for _, v := range p {
		sum += v
	}
	for i := range p {
		p[i] = max(p[i]/sum, 1e-6)
	}
}

// Rate returns the expected present rate of change, in changes per second.
func (f *Filter) Rate() float64 {
	var sum float64
	for h, w := range f.Weight {
		sum += float64(float64(w) * mean(&f.Now[h]))
	}
	return sum
}

// LongRunRate returns the expected rate of change over the past hours, in changes per second.
func (f *Filter) LongRunRate() float64 { return mean(&f.LongRun) }

func mean(p *[Rates]float32) (sum float64) {
	for j, v := range p {
		sum += float64(float64(v) * rates[j])
	}
	return sum
}
