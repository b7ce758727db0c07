package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/endpoints"
	"rubato/internal/replay"
	"rubato/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replayed replays a fleet and returns the report.
func (f *fleet) replayed(o replay.Options) replay.Report {
	f.t.Helper()
	report, err := replay.Run(f.t.Context(), f.URL, o)
	require.NoError(f.t, err)
	return report
}

// TestReplayGivesEveryDecisionAgain lets a fleet live for 30 hours with hints, pauses, edits,
// one-off runs, retries, lost runs and budgets. The replay of all of it, and of its last hours,
// finds every decision as it is recorded.
func TestReplayGivesEveryDecisionAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 7)
	f.live(f.begin.Add(30 * time.Hour))

	whole := f.replayed(replay.Options{From: f.begin})
	require.Nil(t, whole.Difference)
	require.Empty(t, whole.Late)
	require.Equal(t, len(f.ids), whole.Endpoints)
	require.Equal(t, storetest.Query[int](t, f.Bundle, "SELECT count(*) FROM runs WHERE next_run_at IS NOT NULL"), whole.Runs)
	require.Equal(t, storetest.Query[int](t, f.Bundle, "SELECT count(*) FROM decisions"), whole.Changes)

	last := f.replayed(replay.Options{From: f.begin.Add(28 * time.Hour)})
	require.Nil(t, last.Difference)
	require.Empty(t, last.Late)
	require.Less(t, last.Runs, whole.Runs*3/4, "a replay begins at the first run of a day")

	t.Logf("%d decisions after runs, %d after changes", whole.Runs, whole.Changes)
	require.Positive(t, storetest.Query[int](t, f.Bundle, "SELECT count(*) FROM runs WHERE basis ? 'budget'"))
	require.Positive(t, storetest.Query[int](t, f.Bundle, "SELECT count(*) FROM runs WHERE basis IS NULL AND next_source = 'change-rate'"))
	for _, status := range []string{"succeeded", "failed", "timed_out", "lost", "skipped"} {
		require.Positive(t, storetest.Query[int](t, f.Bundle, "SELECT count(*) FROM runs WHERE status = $1", status), status)
	}
}

// TestAFlippedRuleIsCaught replays with variants of single rules. The report names the decision,
// its field and both values.
func TestAFlippedRuleIsCaught(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 11)
	f.live(f.begin.Add(12 * time.Hour))
	require.Nil(t, f.replayed(replay.Options{From: f.begin}).Difference)

	for name, variant := range map[string]struct {
		fields []string
		flip   func(e *endpoints.Endpoint, run *endpoints.Finished)
	}{
		"failures do not back off": {
			[]string{"nextRunAt", "failureCount", "nextSteps"},
			func(e *endpoints.Endpoint, _ *endpoints.Finished) { e.State.FailureCount = 0 },
		},
		"no jitter": {
			[]string{"nextRunAt", "nextSteps"},
			func(e *endpoints.Endpoint, _ *endpoints.Finished) { e.Spec.Jitter = 0 },
		},
		"Rubato-Next is ignored": {
			[]string{"nextRunAt", "nextSource"},
			func(_ *endpoints.Endpoint, run *endpoints.Finished) { run.TargetNext = time.Time{} },
		},
		"the filter sees no change": {
			[]string{"nextRunAt", "nextSteps", "nextSource", "state.tempo"},
			func(_ *endpoints.Endpoint, run *endpoints.Finished) { run.Unchanged = true },
		},
		"a run costs a thousandth more": {
			[]string{"nextRunAt", "nextSteps", "state.tempo"},
			func(e *endpoints.Endpoint, _ *endpoints.Finished) {
				if e.Shared != nil {
					e.Shared.Price *= 1.001
				}
			},
		},
	} {
		report := f.replayed(replay.Options{From: f.begin}.WithAfterRun(
			func(e *endpoints.Endpoint, now time.Time, run endpoints.Finished) (endpoints.Recorded, error) {
				variant.flip(e, &run)
				return e.AfterRun(now, run)
			}))
		d := report.Difference
		require.NotNil(t, d, name)
		require.Contains(t, variant.fields, strings.TrimRight(strings.Split(d.Field, "[")[0], "."), "%s: %+v", name, d)
		require.NotEqual(t, d.Recorded, d.Recomputed)
		require.NotEmpty(t, d.EndpointID)
	}
}

// TestAChangedRowIsCaught changes single recorded values, one after the other.
func TestAChangedRowIsCaught(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 13)
	f.live(f.begin.Add(5 * time.Hour))
	run := "id = '" + storetest.Query[string](t, f.Bundle, "SELECT id::text FROM runs WHERE next_source = 'change-rate' AND basis IS NULL LIMIT 1") + "'"
	decision := "id = " + storetest.Query[string](t, f.Bundle, "SELECT max(id)::text FROM decisions WHERE cause = 'hint'")
	schedule := "endpoint_id = '" + storetest.Query[string](t, f.Bundle, "SELECT min(endpoint_id::text) FROM schedules WHERE tempo IS NOT NULL") + "'"
	for _, broken := range []struct{ table, where, column, kind, value, cause, field string }{
		{"runs", run, "next_run_at", "timestamptz", "next_run_at + interval '1 us'", "finish", "nextRunAt"},
		{"runs", run, "failure_count", "int", "9", "finish", "failureCount"},
		{"runs", run, "source", "text", "'manual'", "finish", "source"},
		{"decisions", decision, "next_source", "text", "'manual'", "hint", "nextSource"},
		{"decisions", decision, "input", "jsonb", "jsonb_set(input, '{failureCount}', '7')", "hint", "input.failureCount"},
		{"decisions", decision, "basis", "jsonb", `jsonb_set(basis, '{state,anchor}', '"2031-01-01T00:00:00Z"')`, "hint", "state.anchor"},
		{"schedules", schedule, "planned_at", "timestamptz", "planned_at + interval '1 ms'", "schedule", "state.due.at"},
		{"schedules", schedule, "tempo", "bytea", "set_byte(tempo, 100, 255 - get_byte(tempo, 100))", "schedule", "state.tempo"},
	} {
		was := storetest.Query[string](t, f.Bundle, "SELECT "+broken.column+"::text FROM "+broken.table+" WHERE "+broken.where)
		f.force(broken.table, broken.column+" = "+broken.value, broken.where)

		d := f.replayed(replay.Options{From: f.begin}).Difference

		require.NotNil(t, d, broken.column)
		require.Equal(t, broken.cause, d.Cause, "%+v", d)
		require.Equal(t, broken.field, d.Field, "%+v", d)
		require.NotEqual(t, d.Recorded, d.Recomputed)
		f.force(broken.table, broken.column+" = '"+was+"'::"+broken.kind, broken.where)
		require.Nil(t, f.replayed(replay.Options{From: f.begin}).Difference)
	}
}

// force updates a row past the triggers that keep history as it is.
func (f *fleet) force(table, set, where string) {
	f.t.Helper()
	f.Exec(f.t, "DO $do$ BEGIN SET LOCAL session_replication_role = replica; UPDATE "+table+" SET "+set+" WHERE "+where+"; END $do$")
}
