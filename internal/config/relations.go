package config

import (
	"fmt"
	"time"
)

// relation is a rule between two durations, without which the promises about locks do not hold.
type relation struct {
	smaller, larger string
	twice           bool // the smaller one must fit in two times
	orEqual         bool
	why             string
}

// relations returns the rules. That three heartbeats fit into a lock needs no rule: they come every third of it.
func relations() []relation {
	return []relation{
		{smaller: pollInterval, larger: horizon, orEqual: true, why: "else endpoints come due before they are looked for"},
		{smaller: horizon, larger: lockTTL, why: "else the lock of a claim ends while it waits for its due time"},
		{smaller: lockTTL, larger: staleAfter, why: "else a worker counts as gone while its locks hold"},
		{smaller: staleAfter, larger: settle, why: "else an outage looks like the silence of dead workers"},
		{smaller: sweep, larger: settle, twice: true, why: "else the sweeper does not see what it waits for"},
	}
}

// misfits returns a sentence for every rule that the settings of a worker break. Rules about a setting that could not be read are
// left out: its default would be judged, which nobody wrote.
func misfits(w Worker, broken map[string]bool) []string {
	values := map[string]time.Duration{
		horizon: w.Horizon, pollInterval: w.PollInterval, lockTTL: w.LockTTL,
		staleAfter: w.StaleAfter, settle: w.Settle, sweep: w.SweepInterval,
	}
	var problems []string
	for _, r := range relations() {
		if broken[r.smaller] || broken[r.larger] {
			continue
		}
		least, most := values[r.smaller], values[r.larger]
		if r.twice {
			least *= 2
		}
		if least < most || r.orEqual && least == most {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s (%s) must be %s %s (%s), %s",
			r.smaller, brief(values[r.smaller]), r.verb(), r.larger, brief(most), r.why))
	}
	if !broken[minSlotsName] && !broken[maxSlotsName] && w.MinSlots > w.Slots {
		problems = append(problems, fmt.Sprintf("%s (%d) must be at most %s (%d)", minSlotsName, w.MinSlots, maxSlotsName, w.Slots))
	}
	return problems
}

func (r relation) verb() string {
	switch {
	case r.orEqual:
		return "at most"
	case r.twice:
		return "less than half of"
	default:
		return "less than"
	}
}
