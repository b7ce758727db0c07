package config

import (
	"fmt"
	"time"
)

// relation is a rule between two durations. The guarantees about locks depend on these rules.
type relation struct {
	smaller, larger string
	// twice requires that the smaller duration fits twice into the larger one.
	twice   bool
	orEqual bool
	why     string
}

// relations returns the rules. No rule is needed for heartbeats, because their interval is a third
// of the lock's duration.
func relations() []relation {
	return []relation{
		{
			smaller: pollInterval,
			larger:  horizon,
			orEqual: true,
			why:     "otherwise endpoints become due before a worker polls for them",
		},
		{
			smaller: horizon,
			larger:  lockTTL,
			why:     "otherwise the lock of a claim expires before its due time",
		},
		{
			smaller: lockTTL,
			larger:  staleAfter,
			why:     "otherwise a worker counts as dead while its locks are valid",
		},
		{
			smaller: staleAfter,
			larger:  settle,
			why:     "otherwise a database outage looks like the death of all workers",
		},
		{
			smaller: sweep,
			larger:  settle,
			twice:   true,
			why:     "otherwise the sweeper misses heartbeats during its wait",
		},
	}
}

// misfits returns a sentence for every rule that the settings of a worker break. It skips rules
// about an invalid setting, because they would compare its default.
func misfits(w Worker, broken map[string]bool) []string {
	values := map[string]time.Duration{
		horizon:      w.Horizon,
		pollInterval: w.PollInterval,
		lockTTL:      w.LockTTL,
		staleAfter:   w.StaleAfter,
		settle:       w.Settle,
		sweep:        w.SweepInterval,
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
