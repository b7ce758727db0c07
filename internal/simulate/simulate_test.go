package simulate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/simulate"
)

// one returns a scenario with one endpoint: a baseline of 10 s within 1 s and 60 s.
func one(process, more string) string {
	return fmt.Sprintf(`{"endpoints": [{"name": "one", "baselineIntervalMs": 10000, "minIntervalMs": 1000, "maxIntervalMs": 60000, "process": %s%s}]}`, process, more)
}

// run returns the rows of a day of a scenario.
func run(t *testing.T, text string, seeds int) []simulate.Row {
	t.Helper()
	rows, err := read(t, text).Run(t.Context(), simulate.Options{Length: 24 * time.Hour, Seeds: seeds})
	require.NoError(t, err)
	return rows
}

func TestEqualSeedsGiveEqualRows(t *testing.T) {
	t.Parallel()
	text := `{"policies": ["fixed", "off", "act"], "budgets": [{"budget": "600/h", "label": "team=a"}], "endpoints": [
		{"name": "one", "baselineIntervalMs": 10000, "labels": {"team": "a"}, "process": {"kind": "mmpp", "rates": [0, 0.5], "dwell": ["25m", "2m"], "errorRate": 0.01}},
		{"name": "two", "baselineIntervalMs": 10000, "labels": {"team": "a"}, "process": {"kind": "poisson", "rate": 0.01, "outages": {"every": "3h", "for": "3m"}}},
		{"name": "three", "baselineIntervalMs": 10000, "process": {"kind": "bursts", "quiet": "25m", "burst": "2m", "rate": 0.5, "noise": ["uuid"]}}]}`
	first, err := json.Marshal(run(t, text, 3))
	require.NoError(t, err)
	second, err := json.Marshal(run(t, text, 3))
	require.NoError(t, err)
	require.JSONEq(t, string(first), string(second))
	require.Len(t, run(t, text, 1), 12, "a row per endpoint and policy, and per budget and policy")

	other, err := json.Marshal(run(t, text, 2))
	require.NoError(t, err)
	require.NotEqual(t, string(first), string(other), "another seed has another content")
}

// A fixed interval under a constant rate finds changes half an interval late, which is what both
// comparisons say too.
func TestFixedIntervalComparesWithItself(t *testing.T) {
	t.Parallel()
	r := run(t, one(`{"kind": "poisson", "rate": 0.05}`, `, "policies": ["fixed"]`), 10)[0]
	require.EqualValues(t, 8640, r.Polls)
	require.InEpsilon(t, 4320, r.Changes, 0.03)
	require.InEpsilon(t, 5000, r.MeanDelayMs, 0.02)
	require.InEpsilon(t, 9500, r.P95DelayMs, 0.02)
	require.InEpsilon(t, 1, *r.RatioToBestFixed, 0.02)
	require.InEpsilon(t, 1, *r.RatioToOracle, 0.02)
	require.Zero(t, r.TempoMovesPerHour)
	require.Zero(t, r.TimeOutsideClampsMs)
}

// Without the planner the shipped governor runs an endpoint at its baseline.
func TestShippedGovernorRunsTheBaseline(t *testing.T) {
	t.Parallel()
	rows := run(t, one(`{"kind": "poisson", "rate": 0.05, "outages": {"every": "4h", "for": "1h"}}`, `, "policies": ["fixed", "off", "observe"]`), 2)
	fixed, off, observe := rows[0], rows[1], rows[2]
	require.Less(t, off.Polls, fixed.Polls-700, "its backoff spares requests in outages: up to 50 s of 60 s")
	require.Equal(t, off.Polls, observe.Polls)
	require.InEpsilon(t, off.MeanDelayMs, observe.MeanDelayMs, 1e-9)
}

// A clairvoyant policy with the polls of a fixed interval finds changes in bursts far sooner, by
// the index law: in quiet times it looks at the longest interval only.
func TestClairvoyantPolicySpendsPollsInBursts(t *testing.T) {
	t.Parallel()
	r := run(t, one(`{"kind": "bursts", "quiet": "25m", "burst": "2m", "rate": 0.5}`, `, "policies": ["fixed"]`), 4)[0]
	// 25/27 of a day at 60 s are 1333 polls. 7307 polls remain for 6400 s of bursts: 0.88 s each,
	// so the minimum of 1 s decides, and changes are found after 0.5 s on average.
	require.InEpsilon(t, 500/r.MeanDelayMs, *r.RatioToOracle, 0.1)
}

// The shipped filter spends the polls of the baseline in bursts.
func TestChangeRateFindsBurstsSooner(t *testing.T) {
	t.Parallel()
	r := run(t, one(`{"kind": "bursts", "quiet": "25m", "burst": "2m", "rate": 0.5}`, `, "policies": ["act"]`), 4)[0]
	require.Less(t, *r.RatioToBestFixed, 0.45)
	require.Positive(t, r.TempoMovesPerHour)
	require.Zero(t, r.TimeOutsideClampsMs)
}

func TestSharedBudgetIsSpentWhereChangesAre(t *testing.T) {
	t.Parallel()
	rows := run(t, `{"budgets": [{"name": "pair", "budget": "120/h", "host": "shop.example.com"}], "policies": ["act"], "endpoints": [
		{"name": "busy", "url": "https://shop.example.com/a", "baselineIntervalMs": 60000, "maxIntervalMs": 3600000, "process": {"kind": "poisson", "rate": 0.05}},
		{"name": "calm", "url": "https://shop.example.com/b", "baselineIntervalMs": 60000, "maxIntervalMs": 3600000, "process": {"kind": "poisson", "rate": 0.0005}},
		{"name": "alone", "baselineIntervalMs": 60000, "process": {"kind": "poisson", "rate": 0.05}}]}`, 3)
	require.Len(t, rows, 4)
	busy, calm, pair := rows[0], rows[1], rows[3]
	require.Equal(t, "pair", pair.Name)
	require.Equal(t, busy.Changes+calm.Changes, pair.Changes)
	require.InEpsilon(t, 2880, pair.Polls, 0.03, "the budget of a day")
	require.Greater(t, busy.Polls, 4*calm.Polls, "ten times, by the root of the rates")
	require.Less(t, *pair.RatioToBestFixed, 0.75, "the best is 0.60: 1/2 of (1 + 0.1)^2")
	require.InEpsilon(t, 1, *pair.RatioToOracle, 0.2)
}

func TestTargets(t *testing.T) {
	t.Parallel()
	constant := func(more string) simulate.Row {
		return run(t, one(`{"kind": "poisson", "rate": 0.02`+more+`}`, `, "policies": ["fixed"]`), 3)[0]
	}
	plain := constant("")
	require.Zero(t, plain.Refusals)
	for name, more := range map[string]string{"Noise": `, "noise": ["timestamp", "counter"]`, "ETag": `, "etag": true`, "Latency": `, "latency": "2s"`} {
		r := constant(more)
		require.Equal(t, plain, r, "%s changes no fixed interval", name)
	}
	failing := constant(`, "errorRate": 0.5`)
	require.InEpsilon(t, 15_000, failing.MeanDelayMs, 0.05, "every second request fails: 5 s and one interval on average")
	require.InEpsilon(t, 1, *failing.RatioToBestFixed, 0.05)
	for _, limit := range []string{`{"requests": 1, "per": "20s"}`, `{"requests": 3, "per": "1m"}`} {
		require.EqualValues(t, plain.Polls/2, constant(`, "retryAfter": "1m", "limit": `+limit).Refusals, limit)
	}
	require.Greater(t, constant(`, "outages": {"every": "6h", "for": "1h"}`).MeanDelayMs, 200_000.0, "a sixth of the changes waits half an hour")
}

// The shipped governor follows Rubato-Next, whether the planner acts or not.
func TestTargetSetsTheNextRun(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"off", "act"} {
		r := run(t, one(`{"kind": "poisson", "rate": 0.02, "next": "45s"}`, `, "policies": ["`+policy+`"]`), 1)[0]
		require.EqualValues(t, 1920, r.Polls, policy)
	}
}

// With validators, the shipped filter sees the content that it would see without.
func TestValidatorsChangeNoTempo(t *testing.T) {
	t.Parallel()
	polls := func(more string) float64 {
		return float64(run(t, one(`{"kind": "poisson", "rate": 0.0333`+more+`}`, `, "policies": ["act"]`), 3)[0].Polls)
	}
	require.InEpsilon(t, polls(""), polls(`, "etag": true`), 0.001)
}

func TestTraceRepeats(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	seconds, instants := filepath.Join(folder, "seconds"), filepath.Join(folder, "instants")
	require.NoError(t, os.WriteFile(seconds, []byte("# three changes, and a gap of 30 s to the next three\n100\n\n145\n160.5\n"), 0o600))
	require.NoError(t, os.WriteFile(instants, []byte("2026-11-01T00:01:40Z\n2026-11-01T00:02:40.5Z\n2026-11-01T00:02:25Z\n"), 0o600))
	policies := `, "policies": ["fixed"]`
	a := run(t, one(fmt.Sprintf(`{"kind": "trace", "file": %q}`, seconds), policies), 1)[0]
	b := run(t, one(fmt.Sprintf(`{"kind": "trace", "file": %q}`, instants), policies), 1)[0]
	require.Equal(t, a, b)
	require.InDelta(t, 3*86400/90.75, a.Changes, 3)
	require.NotNil(t, a.RatioToOracle)
}

func TestPeriodicChanges(t *testing.T) {
	t.Parallel()
	r := run(t, one(`{"kind": "periodic", "every": "1m", "offset": "3s"}`, `, "policies": ["fixed"]`), 1)[0]
	require.EqualValues(t, 1440, r.Changes)
	require.InEpsilon(t, 7000, r.MeanDelayMs, 1e-9, "a change at second 3 is found at second 10")
}

func TestDiurnalRateFollowsTheDay(t *testing.T) {
	t.Parallel()
	r := run(t, one(`{"kind": "diurnal", "peakRate": 0.1, "nightRate": 0.02}`, `, "policies": ["fixed"]`), 5)[0]
	require.InEpsilon(t, 0.1*8*3600+0.02*16*3600, r.Changes, 0.02)
	require.Less(t, *r.RatioToOracle, 0.99)
}

func TestPoliciesWithFields(t *testing.T) {
	t.Parallel()
	rows := run(t, one(`{"kind": "poisson", "rate": 0.02}`, `, "policies": [{"name": "twice", "baselineIntervalMs": 5000, "planner": "off"}, "off"]`), 1)
	require.Equal(t, "twice", rows[0].Policy)
	require.InDelta(t, 2*rows[1].Polls, rows[0].Polls, 2)
}

// Gaps that miss the clamps are counted: a fixed interval does not obey them.
func TestTimeOutsideClampsIsCounted(t *testing.T) {
	t.Parallel()
	r := run(t, `{"endpoints": [{"name": "one", "baselineIntervalMs": 10000, "minIntervalMs": 12000, "process": {"kind": "poisson", "rate": 0.02}, "policies": ["fixed", "off"]}]}`, 1)
	require.InDelta(t, 8640*2000, r[0].TimeOutsideClampsMs, 4000)
	require.Zero(t, r[1].TimeOutsideClampsMs)
}

func TestFaultsNameTheirFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{}`:                                                                                       {"endpoints"},
		`{"endpoints": [], "seeds": 3}`:                                                            {"endpoints", "seeds"},
		`{"endpoints": [5]}`:                                                                       {"endpoints[0]"},
		`{"endpoints": [{"name": "a"}]}`:                                                           {"endpoints[0].process", "endpoints[0].baselineIntervalMs"},
		one(`{"kind": "walk", "rate": 1}`, ``):                                                     {"endpoints[0].process.kind"},
		one(`{"kind": "poisson"}`, ``):                                                             {"endpoints[0].process.rate"},
		one(`{"kind": "poisson", "rate": -1, "rat": 1}`, ``):                                       {"endpoints[0].process.rate", "endpoints[0].process.rat"},
		one(`{"kind": "poisson", "rate": "1/s"}`, ``):                                              {"endpoints[0].process.rate"},
		one(`{"kind": "bursts", "quiet": 25, "burst": "2 apples"}`, ``):                            {"endpoints[0].process.quiet", "endpoints[0].process.burst", "endpoints[0].process.rate"},
		one(`{"kind": "mmpp", "rates": [0.5], "dwell": ["1m", "2m"]}`, ``):                         {"endpoints[0].process.rates", "endpoints[0].process.dwell"},
		one(`{"kind": "mmpp", "rates": [0.5, "a"], "dwell": ["1m", "2m"]}`, ``):                    {"endpoints[0].process.rates[1]"},
		one(`{"kind": "diurnal", "peakRate": 5000, "nightRate": 0}`, ``):                           {"endpoints[0].process.peakRate"},
		one(`{"kind": "periodic", "every": "0s", "offset": "400d"}`, ``):                           {"endpoints[0].process.every", "endpoints[0].process.offset"},
		one(`{"kind": "trace"}`, ``):                                                               {"endpoints[0].process.file"},
		one(`{"kind": "trace", "file": "/nowhere"}`, ``):                                           {"endpoints[0].process.file"},
		one(`{"kind": "poisson", "rate": 1, "noise": ["hum"], "etag": 1, "latency": 5}`, ``):       {"endpoints[0].process.noise[0]", "endpoints[0].process.etag", "endpoints[0].process.latency"},
		one(`{"kind": "poisson", "rate": 1, "errorRate": 2, "retryAfter": "5s"}`, ``):              {"endpoints[0].process.errorRate", "endpoints[0].process.retryAfter"},
		one(`{"kind": "poisson", "rate": 1, "outages": {"every": "1m", "for": "1h", "x": 1}}`, ``): {"endpoints[0].process.outages.for", "endpoints[0].process.outages.x"},
		one(`{"kind": "poisson", "rate": 1, "limit": {"requests": 1.5}}`, ``):                      {"endpoints[0].process.limit.per", "endpoints[0].process.limit.requests"},
		one(`{"kind": "poisson", "rate": 1}`, `, "policies": ["best", 5, {}]`):                     {"endpoints[0].policies[0]", "endpoints[0].policies[1]", "endpoints[0].policies[2].name"},
		one(`{"kind": "poisson", "rate": 1}`, `, "policies": ["off", "off"]`):                      {"endpoints[0].policies[1]"},
		one(`{"kind": "poisson", "rate": 1}`, `, "policies": [{"name": "a", "jitterMs": -1}]`):     {"endpoints[0].policies[0].jitterMs"},
		one(`{"kind": "poisson", "rate": 1}`, `, "colour": 1`):                                     {"endpoints[0].colour"},
		`{"endpoints": [{"name": "a", "baselineCron": "@daily", "process": {"kind": "poisson", "rate": 1}, "policies": ["fixed"]}],
		  "budgets": [{"budget": "many", "label": "x", "host": "y", "z": 1}]}`: {"endpoints[0].policies[0]", "budgets[0].budget", "budgets[0].label", "budgets[0].host", "budgets[0].z"},
		`{"endpoints": [{"name": "a", "baselineIntervalMs": 1000, "process": {"kind": "poisson", "rate": 1}}, {"name": "a", "baselineIntervalMs": 1000, "process": {"kind": "poisson", "rate": 1}}]}`: {"endpoints[1].key"},
	} {
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &document), text)
		_, err := reader().Read(document)
		var got []string
		for _, f := range errs.FieldsOf(err) {
			got = append(got, f.Field)
			require.NotEmpty(t, f.Message)
		}
		require.ElementsMatch(t, want, got, "%s: %v", text, err)
	}
}

// The comparison with a fixed interval holds for a look that fails too, and no delay is lost.
func TestNoChangeIsLost(t *testing.T) {
	t.Parallel()
	r := run(t, one(`{"kind": "poisson", "rate": 0.02, "errorRate": 1}`, `, "policies": ["fixed"]`), 1)[0]
	require.InEpsilon(t, 12*3_600_000, r.MeanDelayMs, 0.05, "nothing is found until the end of the day")
	require.InEpsilon(t, 1, *r.RatioToBestFixed, 1e-3)
	require.False(t, math.IsNaN(*r.RatioToOracle))
}
