package openai_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner/openai/openaitest"
	"rubato/internal/waittest"
)

var hostileCalls = flag.Int("hostile-calls", 3000, "how many random calls a hostile model makes; the long form is 100000")

// randomCall returns an arbitrary call: valid, nearly valid, or noise.
func randomCall(r *rand.Rand) openaitest.Invocation {
	numbers := []string{"-1", "0", "0.001", "1", "30", "1e18", "-1e308", "1e400", "NaN", "null", `"30"`, "60", "[]", "true", "9223372036854775808"}
	names := []string{
		"propose_interval", "propose_next_run", "pause_until", "clear_hints", "get_latest_response", "get_response_history", "set_url", "",
		"propose_interval ", "PAUSE_UNTIL", "functions.pause_until",
	}
	fields := []string{
		"interval_seconds", "ttl_minutes", "in_seconds", "minutes", "limit", "endpoint_id", "tenant", "until", "expires_at", "Interval_Seconds",
	}
	var parts []string
	for range r.IntN(5) {
		parts = append(parts, fmt.Sprintf("%q:%s", fields[r.IntN(len(fields))], numbers[r.IntN(len(numbers))]))
	}
	if r.IntN(2) == 0 {
		parts = append(parts, `"reason":"r"`)
	}
	arguments := "{" + strings.Join(parts, ",") + "}"
	if r.IntN(10) == 0 {
		arguments = arguments[:r.IntN(len(arguments))]
	}
	return openaitest.Invocation{Name: names[r.IntN(len(names))], Arguments: arguments}
}

// TestJ9RandomCallsStayWithinTheirRanges lets a model make random calls, session after session.
// Calls that reach the desk lie within the ranges of the tools, and all others are recorded as
// refused.
func TestJ9RandomCallsStayWithinTheirRanges(t *testing.T) {
	t.Parallel()
	const each = 7 // calls of a session, in one answer
	for seed := uint64(1); int(seed-1)*each < *hostileCalls; seed++ {
		// The service ends with its subtest, because the long form holds thousands of sessions.
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			var calls []openaitest.Invocation
			for range each {
				calls = append(calls, randomCall(r))
			}
			requireInRange(t, calls)
		})
	}
}

// requireInRange runs a session with a model that makes some calls in one answer.
func requireInRange(t *testing.T, calls []openaitest.Invocation) {
	t.Helper()
	usage := openaitest.Usage{Prompt: 900, Completion: 300}
	b := setup(t, openaitest.Session(openaitest.ToolsFor(usage, calls...), openaitest.Tools(openaitest.Submission("done"))))
	b.desk.body = "{}"
	_, err := b.advise(t)
	require.NoError(t, err)
	require.Equal(t, 1+len(calls), b.desk.calls, "every call is carried out or noted")
	for _, p := range b.desk.intervals {
		require.True(t, p.Interval >= time.Second && p.Interval <= 366*24*time.Hour && p.TTL > 0 && p.TTL <= 24*time.Hour, "%+v", p)
	}
	for _, p := range b.desk.nextRuns {
		require.True(t, p.In >= 0 && p.In <= 366*24*time.Hour && p.TTL > 0 && p.TTL <= 24*time.Hour, "%+v", p)
	}
	for _, p := range b.desk.pauses {
		require.True(t, p.For > 0 && p.For <= time.Hour, "%+v", p)
	}
}

// TestJ8AnswersThatDifferEachTimeForceNoAnalyses alternates success and failure, with a model that
// always asks for another analysis at once. Analyses stay under the hourly limit of the rails.
func TestJ8AnswersThatDifferEachTimeForceNoAnalyses(t *testing.T) {
	t.Parallel()
	const perHour = 4
	again := openaitest.Invoke("submit_analysis", map[string]any{"reasoning": "again", "confidence": 1, "next_analysis_in_minutes": 0})
	w := newWorld(t, openaitest.Always(openaitest.Tools(again)))
	w.rails.AnalysesPerHour, w.rails.MinGap = perHour, time.Millisecond
	e := w.register(t, first, nil)
	w.run(t, func(endpoints.ID) reply { return reply{code: 200, body: "{}"} })
	w.plan(t)
	w.await(t, 1)
	for flip := range 20 {
		w.exec(t, "UPDATE schedules SET failure_count = $2, last_status = $3 WHERE endpoint_id = $1", e.ID, 1<<(flip%2*3), []string{"failed", "succeeded"}[flip%2])
		waittest.Until(t, func() bool { // Until the planner has seen it, and has nothing left to do.
			return rows[int](t, w, `SELECT count(*)::int FROM planner_state WHERE seen_failures = $1 AND claimed_by IS NULL AND due_at > clock_timestamp()`,
				[]int{1, 4}[flip%2])[0] == 1
		})
	}
	require.Equal(t, []int{perHour}, rows[int](t, w, "SELECT count(*)::int FROM planner_sessions WHERE endpoint_id = $1", e.ID))
}
