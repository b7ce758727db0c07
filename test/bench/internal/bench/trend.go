package bench

import (
	"math"
	"slices"
	"time"
)

// Trend is how a quantity behaved while it was sampled.
type Trend struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	First  float64 `json:"first"` // after the warm-up
	Median float64 `json:"median"`
	Last   float64 `json:"last"`
	Max    float64 `json:"max"`
	// PerHour is the slope of the line of least squares.
	PerHour float64 `json:"perHour"`
	Grows   bool    `json:"grows"` // see [trendOf]
}

const (
	// warmupShare is the part of the samples that is left out: caches, pools and tables come to their size in it.
	warmupShare = 0.2
	// confidence is how many standard errors a slope must be above nothing: 1 in 200 flat quantities is further by chance.
	confidence = 2.6
	// negligible is a rise over the whole time that nobody minds, as a part of the median; trifle is one in any case: a MiB, or a single
	// goroutine.
	negligible = 0.05
	trifle     = 1
)

// trendOf fits a line through samples that were taken at even distances. The quantity grows when the line rises for more than chance
// explains, and over the time that is looked at by more than one and by more than a twentieth of the median.
func trendOf(name, unit string, samples []float64, every time.Duration) Trend {
	samples = samples[int(warmupShare*float64(len(samples))):]
	t := Trend{Name: name, Unit: unit}
	if len(samples) == 0 {
		return t
	}
	t.First, t.Last, t.Max = samples[0], samples[len(samples)-1], slices.Max(samples)
	t.Median = median(samples, func(v float64) float64 { return v })
	slope, deviation, known := line(samples)
	if !known {
		return t
	}
	steps := float64(len(samples) - 1)
	t.PerHour = slope * float64(time.Hour) / float64(every)
	t.Grows = slope > confidence*deviation && slope*steps > max(negligible*t.Median, trifle)
	return t
}

// line returns the slope of the line of least squares for each step from one sample to the next, and its standard error. They are not
// known of less than three samples.
func line(samples []float64) (slope, deviation float64, known bool) {
	n := float64(len(samples))
	if n < 3 {
		return 0, 0, false
	}
	middle, mean := (n-1)/2, 0.0
	for _, v := range samples {
		mean += v / n
	}
	var across, along float64
	for i, v := range samples {
		x := float64(i) - middle
		across += x * x
		along += x * (v - mean)
	}
	slope = along / across
	var rest float64
	for i, v := range samples {
		off := v - mean - slope*(float64(i)-middle)
		rest += off * off
	}
	return slope, math.Sqrt(rest / (n - 2) / across), true
}
