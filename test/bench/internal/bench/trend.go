package bench

import (
	"math"
	"slices"
	"time"
)

// Trend is the development of a sampled quantity.
type Trend struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	First  float64 `json:"first"` // after the warm-up
	Median float64 `json:"median"`
	Last   float64 `json:"last"`
	Max    float64 `json:"max"`
	// PerHour is the slope of the least-squares line.
	PerHour float64 `json:"perHour"`
	Grows   bool    `json:"grows"` // see [trendOf]
}

const (
	// warmupShare is the share of samples that is ignored, because caches, pools and tables reach
	// their size in it.
	warmupShare = 0.2
	// confidence is the number of standard errors that a slope must exceed. By chance, 1 in 200
	// flat quantities does.
	confidence = 2.6
	// negligible is the ignored rise over the whole time as a share of the median; trifle is the
	// absolute one: a MiB, or a single goroutine.
	negligible = 0.05
	trifle     = 1
)

// trendOf fits a line through equidistant samples. The quantity grows if the slope is significant,
// and if the rise over the whole time exceeds both one and a twentieth of the median.
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

// line returns the slope of the least-squares line per sample, and its standard error. Both are
// unknown for less than three samples.
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
