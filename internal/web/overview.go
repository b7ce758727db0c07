package web

import (
	"slices"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/stats"
)

const (
	overviewTime = 30 * time.Minute
	overviewStep = 30 * time.Second
	// overviewLeast is the shortest time that charts show.
	overviewLeast = 5 * time.Minute
)

// home leads to the overview, which is the page of the server itself.
func (v *pageRequest) home() error { return v.seeOther("/") }

func (v *pageRequest) overview() error {
	o, err := v.read()
	if err != nil {
		return err
	}
	savings, err := v.decided.Savings(v.r.Context(), v.who.TenantID)
	if err != nil {
		return err
	}
	return v.show(page{
		title: "Overview",
		nav:   "overview",
		chart: true,
	}, overviewPage(o, savings, v.who.May(auth.Write)))
}

// overview is the view model of the overview: the current statistics of the API, and the outcomes
// of recent runs.
type overview struct {
	stats.Activity

	stats   client.Stats
	workers []client.Worker
	budget  client.PlannerBudget
}

func (v *pageRequest) read() (o overview, err error) {
	if o.Activity, err = v.past(); err != nil {
		return o, err
	}
	if err := v.get("/v1/stats", nil, &o.stats); err != nil {
		return o, err
	}
	if err := v.get("/v1/planner/budget", nil, &o.budget); err != nil {
		return o, err
	}
	o.workers, _, err = v.workerList()
	return o, err
}

func (v *pageRequest) past() (stats.Activity, error) {
	return v.figures.Activity(v.r.Context(), v.who.TenantID, overviewTime, overviewStep)
}

func (v *pageRequest) overviewLive() error {
	return v.live(func() (templ.Component, error) {
		o, err := v.read()
		return overviewFigures(o), err
	})
}

// series is the data of the overview's charts: one entry for each step, including steps without
// runs.
type series struct {
	Times     []int64    `json:"times"` // in seconds
	Succeeded []int64    `json:"succeeded"`
	Failed    []int64    `json:"failed"`
	Lost      []int64    `json:"lost"`
	Other     []int64    `json:"other"`
	LagP50    []*float64 `json:"lagP50"` // in milliseconds; null: no runs
	LagP99    []*float64 `json:"lagP99"`
}

func (v *pageRequest) overviewData() error {
	o, err := v.past()
	if err != nil {
		return err
	}
	return v.json(seriesOf(o))
}

func seriesOf(o stats.Activity) series {
	found := map[int64]stats.Bucket{}
	for _, b := range o.Buckets {
		found[b.At.Unix()] = b
	}
	from := o.At.Add(-overviewTime).Truncate(o.Step)
	if len(o.Buckets) > 0 { // A server that has just begun has little to draw: then the time before it takes no room.
		from = later(from, earlier(o.Buckets[0].At, o.At.Add(-overviewLeast).Truncate(o.Step)))
	}
	var s series
	for at := from; at.Before(o.At); at = at.Add(o.Step) {
		b, any := found[at.Unix()]
		s.Times = append(s.Times, at.Unix())
		s.Succeeded, s.Failed = append(s.Succeeded, b.Succeeded), append(s.Failed, b.Failed)
		s.Lost, s.Other = append(s.Lost, b.Lost), append(s.Other, b.Other)
		var p50, p99 *float64
		if any {
			p50, p99 = new(inMs(b.LagP50)), new(inMs(b.LagP99))
		}
		s.LagP50, s.LagP99 = append(s.LagP50, p50), append(s.LagP99, p99)
	}
	return s
}

func inMs(d time.Duration) float64 { return float64(max(0, d).Microseconds()) / 1000 }

// rate returns the runs per second of the newest complete step, and the successful and all runs of
// the last five minutes.
func rate(o stats.Activity) (perSecond float64, good, all int64) {
	whole := o.At.Truncate(o.Step).Add(-o.Step)
	for _, b := range o.Buckets {
		n := b.Succeeded + b.Failed + b.Lost
		if b.At.Equal(whole) {
			perSecond = float64(n) / o.Step.Seconds()
		}
		if b.At.After(o.At.Add(-5 * time.Minute)) {
			good, all = good+b.Succeeded, all+n
		}
	}
	return perSecond, good, all
}

// lag returns the start lag of the newest step that had runs.
func lag(o stats.Activity) (p50, p99 time.Duration, ok bool) {
	for _, b := range slices.Backward(o.Buckets) {
		if b.Succeeded+b.Failed+b.Lost > 0 {
			return b.LagP50, b.LagP99, true
		}
	}
	return 0, 0, false
}

// slots adds up the slots of workers that work.
func slots(workers []client.Worker) (busy, all, working int) {
	for _, w := range workers {
		if w.State == client.WorkerStateActive || w.State == client.WorkerStateDraining {
			busy, all, working = busy+int(w.Busy), all+int(w.Slots), working+1
		}
	}
	return busy, all, working
}

func runPath(id [16]byte) templ.SafeURL {
	return templ.SafeURL("/console/runs/run_" + uuid.UUID(id).String())
}

func endpointPath(id [16]byte) templ.SafeURL {
	return templ.SafeURL("/console/endpoints/ep_" + uuid.UUID(id).String())
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// number writes how many there are of something.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(int64(n)) + " " + many
}
