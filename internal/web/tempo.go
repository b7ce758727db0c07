package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/endpoints"
	"rubato/internal/stats"
)

// tempoRuns is how many runs the tempo chart draws.
const tempoRuns = "300"

// tempoChart is the data of the chart of an endpoint's tempo. Instants are seconds since 1970,
// intervals seconds.
type tempoChart struct {
	Times    []float64      `json:"times"`
	Interval []*float64     `json:"interval"` // null: paused
	Hint     []*float64     `json:"hint"`     // the same points, of those that a hint decided
	Backoff  []*float64     `json:"backoff"`
	Clamped  []*float64     `json:"clamped"`
	Baseline *float64       `json:"baseline"` // null: a cron
	Min      *float64       `json:"min"`
	Max      *float64       `json:"max"`
	Pauses   [][2]float64   `json:"pauses"`
	Hints    [][2]float64   `json:"hints"`
	Now      float64        `json:"now"`
	Then     *forecastChart `json:"then,omitempty"`
}

// forecastChart is the forecast of a suggestion, in the same units.
type forecastChart struct {
	Times    []float64   `json:"times"`
	Interval []*float64  `json:"interval"`
	Paused   *[2]float64 `json:"paused"`
}

// point is a decision on the chart.
type point struct {
	at       time.Time
	interval time.Duration // zero: none, it was paused
	kind     string        // hint, backoff, clamped, or nothing of these
}

func (v *pageRequest) tempoData() error {
	chart, err := v.tempo(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.json(chart)
}

// tempo reads the tempo of an endpoint.
func (v *pageRequest) tempo(id string) (chart tempoChart, err error) {
	var e client.Endpoint
	var runs client.RunList
	if err := v.get(endpointAPI(id, ""), nil, &e); err != nil {
		return chart, err
	}
	if err := v.get(endpointAPI(id, "/runs"), url.Values{"limit": {tempoRuns}}, &runs); err != nil {
		return chart, err
	}
	parsed, err := endpoints.ParseID(id)
	if err != nil {
		return chart, err
	}
	history, err := v.figures.History(v.r.Context(), v.who.TenantID, parsed, historyTime)
	if err != nil {
		return chart, err
	}
	return chartOf(e, runs.Items, history), nil
}

// chartOf returns the chart of the decisions of runs and changes, oldest first.
func chartOf(e client.Endpoint, runs []client.Run, h stats.History) tempoChart {
	points := append(decidedByRuns(e, runs), decidedByChanges(runs, h)...)
	slices.SortStableFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	chart := tempoChart{
		Times:    []float64{},
		Interval: []*float64{},
		Hint:     []*float64{},
		Backoff:  []*float64{},
		Clamped:  []*float64{},
		Baseline: inSeconds(e.BaselineIntervalMs),
		Min:      inSeconds(e.MinIntervalMs),
		Max:      inSeconds(e.MaxIntervalMs),
		Now:      unix(h.At),
	}
	for _, p := range points {
		var value *float64
		if p.interval > 0 {
			value = new(p.interval.Seconds())
		}
		chart.Times, chart.Interval = append(chart.Times, unix(p.at)), append(chart.Interval, value)
		chart.Hint = append(chart.Hint, only(p, "hint", value))
		chart.Backoff = append(chart.Backoff, only(p, "backoff", value))
		chart.Clamped = append(chart.Clamped, only(p, "clamped", value))
	}
	from := h.At.Add(-historyTime)
	if len(points) > 0 {
		from = points[0].at
	}
	chart.Pauses = spans(pauses(h), from, h.At)
	chart.Hints = spans(hinted(h), from, h.At)
	return chart
}

// decidedByRuns returns the interval that the finish of each run decided on.
func decidedByRuns(e client.Endpoint, runs []client.Run) []point {
	var points []point
	for _, r := range runs {
		if r.Decision == nil || r.FinishedAt == nil || r.StartedAt == nil {
			continue
		}
		p := point{at: *r.FinishedAt, kind: kindOf(string(r.Decision.Source))}
		if next := r.Decision.NextRunAt; next != nil && !far(*next) {
			p.interval = max(time.Millisecond, next.Sub(*r.StartedAt))
		}
		if p.kind == "" && r.Status != client.RunStatusSucceeded && e.BaselineIntervalMs != nil &&
			p.interval > time.Duration(*e.BaselineIntervalMs)*time.Millisecond*5/4 {
			p.kind = "backoff"
		}
		points = append(points, p)
	}
	return points
}

// requested returns the changes without the starts and ends of runs that overlap, because these are
// decisions about due times without a request.
func requested(list []stats.Change) []stats.Change {
	return slices.DeleteFunc(slices.Clone(list), func(c stats.Change) bool { return c.Cause == "detach" || c.Cause == "result" })
}

// decidedByChanges returns the interval that each change left, from the last start before it.
func decidedByChanges(runs []client.Run, h stats.History) []point {
	var points []point
	for _, c := range h.Changes {
		p := point{at: c.At, kind: kindOf(c.Source)}
		i := slices.IndexFunc(runs, func(r client.Run) bool { return r.StartedAt != nil && !r.StartedAt.After(c.At) })
		if i < 0 {
			continue // Nothing ran before, so there is no interval yet.
		}
		if !far(c.NextRunAt) && !c.PausedUntil.After(c.At) {
			p.interval = max(time.Millisecond, c.NextRunAt.Sub(*runs[i].StartedAt))
		}
		points = append(points, p)
	}
	return points
}

func kindOf(source string) string {
	switch {
	case strings.HasPrefix(source, "ai-"):
		return "hint"
	case strings.HasPrefix(source, "clamped-"):
		return "clamped"
	default:
		return ""
	}
}

func only(p point, kind string, value *float64) *float64 {
	if p.kind != kind {
		return nil
	}
	return value
}

// pauses returns when the endpoint was paused, from the changes that began and ended it.
func pauses(h stats.History) [][2]time.Time {
	var list [][2]time.Time
	for i, c := range slices.Backward(h.Changes) { // Oldest first.
		if !c.PausedUntil.After(c.At) {
			continue
		}
		end := c.PausedUntil
		if i > 0 && h.Changes[i-1].At.Before(end) { // The next decision determines whether the pause continues.
			end = h.Changes[i-1].At
		}
		list = append(list, [2]time.Time{c.At, end})
	}
	return list
}

func hinted(h stats.History) [][2]time.Time {
	var list [][2]time.Time
	for _, hint := range h.Hints {
		if hint.Kind == "interval" {
			list = append(list, [2]time.Time{hint.CreatedAt, hint.EndedAt})
		}
	}
	return list
}

// spans clips time spans to the range of the chart.
func spans(list [][2]time.Time, from, to time.Time) [][2]float64 {
	cut := [][2]float64{}
	for _, s := range list {
		begin, end := s[0], s[1]
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			cut = append(cut, [2]float64{unix(begin), unix(end)})
		}
	}
	slices.SortFunc(cut, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	return cut
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func inSeconds(ms *int64) *float64 {
	if ms == nil {
		return nil
	}
	return new(float64(*ms) / 1000)
}
