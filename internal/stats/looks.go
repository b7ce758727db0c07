package stats

import (
	"time"

	"rubato/internal/tempo"
)

// MaxLooks is how many of an endpoint's newest runs [Looks] covers.
const MaxLooks = HealthRuns

// Looks is how an endpoint's runs found changes over a period, and when it was paused. Runs that a
// user started are left out, because they may have sent another request.
type Looks struct {
	// From and At are the begin and the end of the period.
	From, At time.Time
	// Groups are in order of time.
	Groups []LookGroup
	// Prices are the prices of a run in change-seconds, by the last decision of each step that has
	// one, keyed by the start of the step in UTC.
	Prices map[time.Time]float64
	// Pauses are in order of time, within the period.
	Pauses [][2]time.Time
}

// LookGroup is a number of runs in one step of time with the same result.
type LookGroup struct {
	// At is the start of the step.
	At time.Time
	// Compared means that the runs are looks: their answers could be compared with those before.
	// Otherwise only Count is set.
	Compared bool
	tempo.Looks
}

// Tally is the sum of some groups.
type Tally struct {
	// Runs counts runs that sent a request, Compared those of them whose answers could be compared.
	Runs, Compared int64
	// Changes counts the looks that found a change.
	Changes int64
	// Rate is the likeliest rate of change per second; see [tempo.Likeliest].
	Rate float64
}

// Sum adds up groups.
func Sum(groups []LookGroup) (t Tally) {
	var looks []tempo.Looks
	for _, g := range groups {
		t.Runs += g.Count
		if !g.Compared {
			continue
		}
		t.Compared += g.Count
		if g.Changed {
			t.Changes += g.Count
		}
		looks = append(looks, g.Looks)
	}
	t.Rate = tempo.Likeliest(looks)
	return t
}

// Pauses returns the pauses within a period from decisions, oldest first: each with its instant and
// the end of the pause that was in force after it; zero: none.
func Pauses(decisions [][2]time.Time, from, to time.Time) [][2]time.Time {
	var list [][2]time.Time
	for i, d := range decisions {
		begin, end := d[0], d[1]
		if i+1 < len(decisions) && decisions[i+1][0].Before(end) { // The next decision says whether the pause continues.
			end = decisions[i+1][0]
		}
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			list = append(list, [2]time.Time{begin, end})
		}
	}
	return list
}

// Savings compares the runs of a tenant's endpoints whose planner may act with those that their
// baseline intervals alone would have made. It covers the newest [MaxRuns] runs of all endpoints,
// at most one day back. Cron baselines and runs that a user started do not count.
type Savings struct {
	At time.Time
	// Since is the due time of the oldest run read.
	Since time.Time
	// Cut means that more than [MaxRuns] runs happened within a day.
	Cut bool
	// Endpoints counts those that ran at least twice.
	Endpoints int64
	// Runs counts their runs after the first one read.
	Runs int64
	// BaselineRuns is the sum of their distances in baseline intervals. A distance counts at most as
	// far as the bound of the interval, so that a pause is not counted as saved.
	BaselineRuns int64
	// Changes counts the runs that found a change.
	Changes int64
}
