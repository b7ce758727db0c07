package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"rubato/internal/stats"
)

const (
	sparkRuns   = 24
	sparkWidth  = 120
	sparkHeight = 22
)

// bar is a run in a sparkline: what became of it by its color, how long it took by its height.
type bar struct {
	x, y, width, height float64
	tone, title         string
}

// bars returns the bars of a sparkline, the newest at its right end.
func bars(runs []stats.RunSample) []bar {
	longest := time.Duration(1)
	for _, r := range runs {
		longest = max(longest, r.FinishedAt.Sub(r.StartedAt))
	}
	const pitch = float64(sparkWidth) / sparkRuns
	list := make([]bar, len(runs))
	for i, r := range runs {
		took := max(0, r.FinishedAt.Sub(r.StartedAt))
		// The scale is logarithmic, because durations differ by powers of ten. It has a minimum, so
		// that every run is visible.
		height := 6 + (sparkHeight-6)*math.Log1p(took.Seconds()*1000)/math.Log1p(longest.Seconds()*1000)
		list[i] = bar{
			x:      float64(sparkWidth) - float64(len(runs)-i)*pitch,
			y:      sparkHeight - height,
			width:  pitch - 1,
			height: height,
			tone:   tone(r.Status),
			title:  fmt.Sprintf("%s %s", clock(r.ScheduledFor, r.ScheduledFor), statusWords(r.Status)),
		}
	}
	return list
}

// tempoLine returns the points of a line of run frequency: high means short intervals. It is empty
// if there are too few runs.
func tempoLine(runs []stats.RunSample) string {
	var gaps []float64
	for i := 1; i < len(runs); i++ {
		if gap := runs[i].ScheduledFor.Sub(runs[i-1].ScheduledFor).Seconds(); gap > 0 {
			gaps = append(gaps, math.Log(gap))
		}
	}
	if len(gaps) < 2 {
		return ""
	}
	low, high := gaps[0], gaps[0]
	for _, g := range gaps {
		low, high = min(low, g), max(high, g)
	}
	const pitch = float64(sparkWidth) / sparkRuns
	points := make([]string, len(gaps))
	for i, g := range gaps {
		y := float64(sparkHeight) / 2
		if high-low > 0.05 { // Less is no change of tempo.
			y = 2 + (sparkHeight-4)*(g-low)/(high-low)
		}
		points[i] = fmt.Sprintf("%.1f,%.1f", sparkWidth-float64(len(gaps)-i)*pitch+pitch/2, y)
	}
	return strings.Join(points, " ")
}

// sparkWords describes a sparkline, for screen readers.
func sparkWords(runs []stats.RunSample) string {
	if len(runs) == 0 {
		return "no recent runs"
	}
	good := 0
	for _, r := range runs {
		if r.Status == "succeeded" {
			good++
		}
	}
	return fmt.Sprintf("%d of the last %d runs succeeded", good, len(runs))
}
