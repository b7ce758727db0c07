package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/stats"
)

// Size of each band of the picture of a pace, in the units of its view box.
const (
	paceWidth  = 1000
	paceHeight = 60
)

// paceBars is a step on the band of runs: one bar for runs, one over it for found changes.
type paceBars struct {
	x, width      float64
	runs, changes float64 // heights
	title         string
}

// paceLine is a band with one line. A step without a value interrupts it.
type paceLine struct {
	name, unit string
	paths      []string // the points of each uninterrupted part
	least      float64
	most       float64
	last       float64
}

// known reports whether the band has a value.
func (l paceLine) known() bool { return len(l.paths) > 0 }

// words describes the band, for its caption and for screen readers.
func (l paceLine) words() string {
	return fmt.Sprintf("%s: %s to %s %s, now %s", l.name, digits(l.least), digits(l.most), l.unit, digits(l.last))
}

func (v *pageRequest) pace() error {
	var t client.EndpointTempo
	if err := v.get(endpointAPI(v.r.PathValue("id"), "/tempo"), nil, &t); err != nil {
		return err
	}
	return v.part(paceCard(v.r.PathValue("id"), t))
}

func (v *pageRequest) routability() error {
	var d client.Routability
	if err := v.get(endpointAPI(v.r.PathValue("id"), "/routability"), nil, &d); err != nil {
		return err
	}
	return v.part(routeLine(d))
}

func (v *pageRequest) shadow() error {
	var d client.EndpointShadow
	if err := v.get(endpointAPI(v.r.PathValue("id"), "/shadow"), nil, &d); err != nil {
		return err
	}
	return v.part(shadowLine(d))
}

// perStep returns how many runs the baseline alone makes in a step.
func perStep(t client.EndpointTempo) float64 {
	if n := len(t.Steps); n > 0 {
		return float64(t.Record.BaselineRuns) / float64(n)
	}
	return 0
}

// paceTop returns the number of runs at the upper edge of the band of runs.
func paceTop(t client.EndpointTempo) float64 {
	top := perStep(t)
	for _, s := range t.Steps {
		top = max(top, float64(s.Runs))
	}
	return max(top, 1)
}

// baselineHeight returns where the line of the baseline is on the band of runs, from above.
func baselineHeight(t client.EndpointTempo) float64 {
	return paceHeight * (1 - perStep(t)/paceTop(t))
}

// barsOf returns the bars of the band of runs.
func barsOf(t client.EndpointTempo) []paceBars {
	top, width := paceTop(t), paceWidth/float64(max(len(t.Steps), 1))
	list := make([]paceBars, len(t.Steps))
	for i, s := range t.Steps {
		list[i] = paceBars{
			x:       float64(i) * width,
			width:   width * 0.8,
			runs:    float64(s.Runs) / top * paceHeight,
			changes: float64(s.Changes) / top * paceHeight,
			title:   fmt.Sprintf("%s: %s, %s", clock(s.At, t.At), number(int(s.Runs), "run", "runs"), number(int(s.Changes), "change found", "changes found")),
		}
	}
	return list
}

// rateLine returns the band of the rate of change.
func rateLine(t client.EndpointTempo) paceLine {
	return lineOf(t.Steps, paceLine{name: "Rate of change", unit: "changes/h"}, func(s client.TempoStep) *float64 { return s.ChangesPerHour })
}

// priceLine returns the band of the price of a run.
func priceLine(t client.EndpointTempo) paceLine {
	return lineOf(t.Steps, paceLine{name: "Price of a run", unit: "change-seconds"}, func(s client.TempoStep) *float64 { return s.Price })
}

// lineOf draws a value per step on a scale of square roots, because rates and prices differ by
// orders of magnitude.
func lineOf(steps []client.TempoStep, l paceLine, value func(client.TempoStep) *float64) paceLine {
	l.least = math.Inf(1)
	for _, s := range steps {
		if v := value(s); v != nil {
			l.least, l.most, l.last = min(l.least, *v), max(l.most, *v), *v
		}
	}
	width, top := paceWidth/float64(max(len(steps), 1)), math.Sqrt(max(l.most, 1e-12))
	var points []string
	for i, s := range steps {
		v := value(s)
		if v != nil {
			y := 2 + (paceHeight-4)*(1-math.Sqrt(max(*v, 0))/top)
			points = append(points, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", float64(i)*width, y, float64(i+1)*width, y))
		}
		if len(points) > 0 && (v == nil || i == len(steps)-1) {
			l.paths, points = append(l.paths, strings.Join(points, " ")), nil
		}
	}
	return l
}

// paceWords sums up a record, for screen readers and below the figures.
func paceWords(t client.EndpointTempo) string {
	return fmt.Sprintf("%s since %s found %s; the baseline alone would have made %s", number(int(t.Record.Runs), "run", "runs"), clock(t.Record.From, t.At),
		number(int(t.Record.Changes), "change", "changes"), number(int(t.Record.BaselineRuns), "run", "runs"))
}

// against writes a number of runs relative to those of the baseline.
func against(runs, baseline int64) string {
	switch {
	case baseline == 0:
		return "no baseline to compare with"
	case runs < baseline:
		return percent(baseline-runs, baseline) + " fewer than the baseline"
	case runs > baseline:
		return more(runs, baseline) + " more than the baseline"
	default:
		return "as many as the baseline"
	}
}

// more writes by how much a number exceeds a base, in percent.
func more(n, base int64) string { return digits(float64(n-base)*100/float64(max(base, 1))) + " %" }

// digits writes a number to three digits.
func digits(v float64) string {
	if v >= 1000 {
		return count(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// perHourWords writes a rate of change.
func perHourWords(rate *float64) string {
	if rate == nil {
		return "–"
	}
	return digits(*rate) + "/h"
}

// priceWords writes the price of a run.
func priceWords(price *float64) string {
	if price == nil {
		return "–"
	}
	return digits(*price)
}

// waitWords writes the interval that the rate of change sets, or would set.
func waitWords(t client.EndpointTempo) string {
	if t.WaitMs == nil {
		return "–"
	}
	return ms(*t.WaitMs)
}

// boundsWords writes the bounds of the interval.
func boundsWords(t client.EndpointTempo) string {
	if t.MaxWaitMs == nil {
		return "at least " + ms(t.MinWaitMs)
	}
	return "between " + ms(t.MinWaitMs) + " and " + ms(*t.MaxWaitMs)
}

// budgetWords names the budget that sets the price.
func budgetWords(t client.EndpointTempo) string {
	every := ", a run every " + ms(t.Budget.EveryMs)
	if t.Budget.Budget == nil {
		return "budget: that of the " + t.Budget.Name + every
	}
	return "budget: " + *t.Budget.Budget + " of " + t.Budget.Name + every
}

func stepWords(t client.EndpointTempo) string {
	return duration(time.Duration(t.StepMs) * time.Millisecond)
}

// savingsSpan writes the time that savings cover.
func savingsSpan(s stats.Savings) string {
	if s.Cut {
		return "the newest " + count(stats.MaxRuns) + " runs of all endpoints, since " + clock(s.Since, s.At)
	}
	return "last 24 h"
}

// savedWords returns the figure of the runs that adaptivity saved or added.
func savedWords(s stats.Savings) (name, value, note string) {
	if s.Runs > s.BaselineRuns {
		return "Added", more(s.Runs, s.BaselineRuns), count(s.Runs-s.BaselineRuns) + " runs more, within clamps and budgets"
	}
	return "Saved", percent(s.BaselineRuns-s.Runs, s.BaselineRuns), count(s.BaselineRuns-s.Runs) + " runs less"
}
