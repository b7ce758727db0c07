package simulate

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// Options are the extent of a simulation.
type Options struct {
	// Length is the simulated time, positive.
	Length time.Duration
	// Seeds is the number of repetitions with other random numbers, positive.
	Seeds int
}

// Row is the result of an endpoint under a policy. Counts are means per seed, rounded.
type Row struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
	// Polls is the number of requests.
	Polls int64 `json:"polls"`
	// Refusals is the number of requests that were answered 429.
	Refusals int64 `json:"refusals"`
	// Changes is the number of changes of the target.
	Changes int64 `json:"changes"`
	// MeanDelayMs and P95DelayMs are the times from a change to the start of the first successful
	// request after it. A change that was not detected counts until the end.
	MeanDelayMs float64 `json:"meanDelayMs"`
	P95DelayMs  float64 `json:"p95DelayMs"`
	// RatioToBestFixed is the mean delay divided by that of the single interval with equal polls; nil
	// without changes.
	RatioToBestFixed *float64 `json:"ratioToBestFixed"`
	// RatioToOracle is the mean delay of a clairvoyant policy with equal polls, which knows the
	// present rate of change, divided by the mean delay; nil without changes.
	RatioToOracle *float64 `json:"ratioToOracle"`
	// TempoMovesPerHour is the number of changes of the tempo per hour.
	TempoMovesPerHour float64 `json:"tempoMovesPerHour"`
	// TimeOutsideClampsMs is the time by which gaps between requests missed the clamps, over all
	// seeds.
	TimeOutsideClampsMs int64 `json:"timeOutsideClampsMs"`
	// RecoveryMs is the mean time from the end of an outage to the start of the first successful
	// request, and PollsPerOutage the mean number of requests during one; nil without outages.
	RecoveryMs     *float64 `json:"recoveryMs,omitempty"`
	PollsPerOutage *float64 `json:"pollsPerOutage,omitempty"`
	// WorstBudgetShare is the largest number of requests in an hour, or in the period of a budget if
	// that is longer, divided by the budget. The first one does not count, because a new budget
	// has no price yet. Nil without a budget.
	WorstBudgetShare *float64 `json:"worstBudgetShare,omitempty"`
}

// Run simulates a scenario. It returns a row per endpoint and policy in their order, then a row per
// shared budget and policy. It uses every processor. The error is that of ctx, or a fault of a
// configuration that passed its validation.
func (s Scenario) Run(ctx context.Context, o Options) ([]Row, error) {
	tasks := s.tasks(o.Seeds)
	results, err := runAll(ctx, tasks, o.Length)
	if err != nil {
		return nil, err
	}
	totals := map[rowKey]*tally{}
	var keys []rowKey
	for _, result := range results {
		for _, r := range result {
			if totals[r.key] == nil {
				totals[r.key] = &tally{}
				keys = append(keys, r.key)
			}
			totals[r.key].merge(&r.tally)
		}
	}
	slices.SortStableFunc(keys, func(a, b rowKey) int { return cmp.Compare(a.order, b.order) })
	rows := make([]Row, len(keys))
	for i, key := range keys {
		rows[i] = newRow(key, totals[key], o)
	}
	return rows, nil
}

// rowKey identifies a row.
type rowKey struct {
	// order is the place of the endpoint or budget in the scenario.
	order        int
	name, policy string
}

func newRow(key rowKey, t *tally, o Options) Row {
	n := float64(o.Seeds)
	r := Row{
		Name:                key.name,
		Policy:              key.policy,
		Polls:               int64(math.Round(float64(t.polls) / n)),
		Refusals:            int64(math.Round(float64(t.refusals) / n)),
		Changes:             int64(math.Round(float64(t.changes) / n)),
		MeanDelayMs:         rounded(t.delays.mean()),
		P95DelayMs:          rounded(t.delays.percentile(0.95)),
		TempoMovesPerHour:   rounded(float64(t.moves) / n / o.Length.Hours()),
		TimeOutsideClampsMs: t.outside.Milliseconds(),
	}
	if t.fixedSum > 0 && t.delays.sum > 0 {
		r.RatioToBestFixed = new(rounded(t.delays.sum / t.fixedSum))
		r.RatioToOracle = new(rounded(t.oracleSum / t.delays.sum))
	}
	if n := t.recoveries.n; n > 0 {
		r.RecoveryMs = new(rounded(t.recoveries.mean()))
		r.PollsPerOutage = new(rounded(float64(t.outagePolls) / float64(n)))
	}
	if t.worstShare > 0 {
		r.WorstBudgetShare = new(rounded(t.worstShare))
	}
	return r
}

// rounded keeps three decimals, which is more than a simulation is worth.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }
