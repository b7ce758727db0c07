package chains_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/chains"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// oneCall is a chain of one call in a step with a name.
func oneCall(chain, step, url string) chains.Definition {
	return chains.Definition{Name: chain, Steps: []chains.StepSpec{{
		Name:    step,
		Request: &chains.Request{URL: url},
		Outputs: map[string]string{"id": "$.id", "rest": "$.rest"},
	}}}
}

func (b *bundle) status(t *testing.T, id chains.RunID) string {
	t.Helper()
	return storetest.Query[string](t, b.Bundle, "SELECT status FROM chain_runs WHERE id = $1", [16]byte(id))
}

// TestAnAnswerThatTheDatabaseCannotHoldStopsNoChain has an answer with U+0000, a lone surrogate and
// numbers beyond the range of numeric in jsonb.
func TestAnAnswerThatTheDatabaseCannotHoldStopsNoChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := oneCall("odd", "odd", "https://shop.example.com/odd")
	d.Outputs = map[string]string{"id": "steps.odd.output.id"}
	d.Steps = append(d.Steps, chains.StepSpec{
		Name: "next", After: []string{"odd"},
		Request: &chains.Request{URL: "https://shop.example.com/next", Body: new(`{"id": {{steps.odd.output.id}}}`)},
	})
	b.answers["odd"] = `{"id": "a\u0000b", "rest": {"\u0000": "\ud800", "n": [1e200000, 1.50, 0e99999999999, ` + strings.Repeat("9", 500) + `]}}`
	odd := b.start(t, d)
	other := b.startBy(t, b.OtherTenant(t), oneCall("plain", "plain", "https://shop.example.com/plain"))
	r, steps := b.end(t, odd)
	require.Equal(t, chains.Succeeded, r.Status)
	require.JSONEq(t, `{"id": "a\ufffdb", "rest": {"\ufffd": "\ufffd", "n": ["1e200000", 1.50, "0e99999999999", "`+strings.Repeat("9", 500)+`"]}}`, string(steps["odd"].Output))
	require.JSONEq(t, `{"id": "a\ufffdb"}`, string(r.Output))
	require.Equal(t, `{"id": "a\ufffdb"}`, strings.ReplaceAll(storetest.Query[string](t, b.Bundle, "SELECT spec ->> 'body' FROM calls WHERE sent_key LIKE '%.next'"), "\uFFFD", `\ufffd`))
	require.Equal(t, "succeeded", b.status(t, other))
	require.Zero(t, b.counter(t, "rubato_chains_failures_total", "advance"))
}

// TestAResponseThatTheDatabaseCannotHoldStartsItsChain has the same for a chain that is started by
// an outcome.
func TestAResponseThatTheDatabaseCannotHoldStartsItsChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "publish", "response")
	b.starter(t, "succeeded=publish")
	b.finish(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, Body: []byte(`{"n\u0000": ["\udfff", -1e999999]}`)})
	require.Len(t, b.runsOf(t, "publish"), 1)
	require.JSONEq(t, `{"response": {"n\ufffd": ["\ufffd", "-1e999999"]}}`, string(b.runsOf(t, "publish")[0].Input))
	b.finish(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, Body: []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))})
	require.Len(t, b.runsOf(t, "publish"), 1, "Postgres refuses 9000 levels")
	require.InDelta(t, 1, b.counter(t, "rubato_chains_starts_total", "refused"), 0)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_starts"))
}

// TestARunThatCannotBeAdvancedIsPutBehind has a run with a broken definition, and one that panics
// in its advance. Runs of the same and of another tenant go on. The broken run goes on when its
// definition is repaired.
func TestARunThatCannotBeAdvancedIsPutBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.OtherTenant(t)
	broken := b.start(t, oneCall("broken", "a", "https://shop.example.com/a"))
	trapped := b.start(t, oneCall("trapped", "b", "https://shop.example.com/trap"))
	b.Exec(t, "UPDATE chain_runs SET definition = '{}' WHERE id = $1", [16]byte(broken))
	b.now = b.At(b.now.Add(time.Millisecond))
	later := []chains.RunID{
		b.start(t, oneCall("same", "c", "https://shop.example.com/c")),
		b.startBy(t, other, oneCall("another", "d", "https://shop.example.com/d")),
	}
	b.end(t, later[0])
	for _, id := range later {
		require.Equal(t, "succeeded", b.status(t, id))
	}
	for _, id := range []chains.RunID{broken, trapped} {
		r, _ := b.read(t, id)
		require.Equal(t, chains.Running, r.Status)
		require.Equal(t, 1, r.Failures)
		require.Greater(t, r.RetryAt, b.now)
	}
	require.InDelta(t, 2, b.counter(t, "rubato_chains_failures_total", "advance"), 0)
	for i := range 12 { // The backoff is bounded.
		r, _ := b.read(t, broken)
		require.LessOrEqual(t, r.RetryAt.Sub(b.now), 5*time.Minute)
		b.now = b.At(r.RetryAt)
		b.advance(t)
		require.Equal(t, i+2, storetest.Query[int](t, b.Bundle, "SELECT failures FROM chain_runs WHERE id = $1", [16]byte(broken)))
	}
	b.Exec(t, "UPDATE chain_runs SET definition = (SELECT definition FROM chains WHERE name = 'broken') WHERE id = $1", [16]byte(broken))
	b.now = b.At(b.now.Add(5 * time.Minute))
	r, _ := b.end(t, broken)
	require.Equal(t, chains.Succeeded, r.Status)
	require.Zero(t, r.Failures)
	require.Zero(t, r.RetryAt)
}

// TestAWokenRunThatCannotBeAdvancedWaits breaks a run after the end of its step.
func TestAWokenRunThatCannotBeAdvancedWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(t, oneCall("broken", "a", "https://shop.example.com/a"))
	b.advance(t)
	b.work(t)
	b.Exec(t, "UPDATE chain_runs SET definition = '{}'")
	b.advance(t)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_items WHERE woken"))
	r, _ := b.read(t, id)
	require.Equal(t, 1, r.Failures)
}

// TestAStartThatFailsIsPutBehind has the start of a chain with a broken definition. The start of
// another tenant goes on. After the last attempt, the event of the run says why it was given up.
func TestAStartThatFailsIsPutBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.OtherTenant(t)
	b.put(t, "broken")
	b.put(t, "sound")
	b.starter(t, "succeeded=broken")
	b.Exec(t, "UPDATE chains SET definition = '7' WHERE name = 'broken'")
	run := b.finish(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200})
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT failures FROM chain_starts"))
	_, _, err := b.chains.Put(t.Context(), other, oneCall("mine", "a", "https://shop.example.com/a"))
	require.NoError(t, err)
	b.Exec(t, `WITH copy AS (INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'tenant_id', $1::uuid, 'attempt', 9))).* FROM runs r WHERE r.id = $2 RETURNING id, scheduled_for)
		INSERT INTO chain_starts (run_id, outcome, chain, tenant_id, endpoint_id, scheduled_for)
		SELECT id, 'succeeded', 'mine', $1, gen_random_uuid(), scheduled_for FROM copy`, other.TenantID, [16]byte(run.ID))
	found, err := b.advancer.StartNext(t.Context())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_runs WHERE chain = 'mine'"))
	for range 9 {
		b.now = b.At(b.now.Add(5 * time.Minute))
		_, err := b.advancer.StartNext(t.Context())
		require.NoError(t, err)
	}
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_starts"))
	require.InDelta(t, 9, b.counter(t, "rubato_chains_failures_total", "start"), 0)
	require.Contains(t, b.refusal(t, run), "succeeded=broken: it was tried 10 times")
}

// refusal returns why a run did not start a chain.
func (b *bundle) refusal(t *testing.T, run runs.Run) string {
	t.Helper()
	story, err := b.Runs.Events(t.Context(), storetest.Tenant.TenantID, run.ID)
	require.NoError(t, err)
	for _, event := range story {
		if event.Kind == runs.EventChainRefused {
			return event.Why
		}
	}
	require.Fail(t, "no event")
	return ""
}

// crowd starts a number of runs of a tenant.
func (b *bundle) crowd(t *testing.T, by auditlog.Actor, number int) {
	t.Helper()
	b.startBy(t, by, oneCall("crowd", "a", "https://shop.example.com/a"))
	b.Exec(t, `INSERT INTO chain_runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', NULL))).*
		FROM chain_runs r, generate_series(2, $2) WHERE r.tenant_id = $1 AND r.chain = 'crowd'`, by.TenantID, number)
	b.Exec(t, `INSERT INTO chain_steps (run_id, name, element) SELECT id, 'a', -1 FROM chain_runs WHERE tenant_id = $1 ON CONFLICT DO NOTHING`, by.TenantID)
}

// TestTenantsTakeTurnsInAdvances has a tenant with more due runs than one look takes. The later run
// of another tenant is among the first that are advanced.
func TestTenantsTakeTurnsInAdvances(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(t, storetest.Tenant, 400)
	b.now = b.At(b.now.Add(time.Second))
	late := b.startBy(t, b.OtherTenant(t), oneCall("late", "a", "https://shop.example.com/a"))
	found, err := b.advancer.Advance(t.Context())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_steps WHERE status = 'active'"), "one of each tenant")
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_steps WHERE status = 'active' AND run_id = $1", [16]byte(late)))
}

// TestRunsOfATenantTakeTurns has a woken run beside one that was advanced after it and has more to
// do at once.
func TestRunsOfATenantTakeTurns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	waiting := b.start(t, oneCall("waits", "a", "https://shop.example.com/a"))
	b.advance(t)
	b.work(t)
	b.now = b.At(b.now.Add(time.Second))
	wide := oneCall("wide", "each", "https://shop.example.com/{{item}}")
	wide.Inputs = map[string]chains.Input{"list": {Default: []byte("[" + strings.Repeat("1,", 299) + "1]")}}
	wide.Steps[0].ForEach, wide.Steps[0].Parallel = "input.list", 100
	b.start(t, wide)
	_, err := b.advancer.Advance(t.Context())
	require.NoError(t, err)
	require.Equal(t, "succeeded", b.status(t, waiting), "it was woken before the other came")
}

// TestTheOpenRunsOfATenantAreBounded starts one run too many, and repeats an earlier start.
func TestTheOpenRunsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(t, storetest.Tenant, chains.MaxOpenRuns)
	_, _, err := b.chains.Start(t.Context(), storetest.Tenant, "crowd", nil, "more")
	require.ErrorContains(t, err, "10000 runs of chains have not ended yet")
	_, created, err := b.chains.Start(t.Context(), storetest.Tenant, "crowd", nil, "once")
	require.NoError(t, err)
	require.False(t, created)
	b.startBy(t, b.OtherTenant(t), oneCall("other", "a", "https://shop.example.com/a"))

	b.starter(t, "succeeded=crowd")
	run := b.finish(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200})
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT failures FROM chain_starts"), "the start waits for a place")
	b.Exec(t, "UPDATE chain_starts SET failures = 9")
	b.now = b.At(b.now.Add(time.Hour))
	_, err = b.advancer.StartNext(t.Context())
	require.NoError(t, err)
	require.Contains(t, b.refusal(t, run), "10000 runs of chains")
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_runs WHERE idempotency_key LIKE '%.succeeded'"))
}

// TestAWideRunIsAdvancedInBoundedTurnsAndShownInPart has 400 elements, of which two fail.
func TestAWideRunIsAdvancedInBoundedTurnsAndShownInPart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := chains.Definition{Name: "wide", OnFailure: chains.Continue, Inputs: map[string]chains.Input{"list": {
		Default: []byte("[" + strings.Repeat("1,", 199) + "1]"),
	}}}
	for _, name := range []string{"first", "second"} {
		d.Steps = append(d.Steps, chains.StepSpec{
			Name: name, ForEach: "input.list", Parallel: 100, Outputs: map[string]string{"id": "$.id"},
			Request: &chains.Request{URL: "https://shop.example.com/{{item}}"},
		})
	}
	d.Steps = append(d.Steps, chains.StepSpec{
		Name: "last", After: []string{"first"}, Outputs: map[string]string{"id": "$.id"},
		Request: &chains.Request{URL: "https://shop.example.com/last", Body: new(`{{steps.first.output.id}}`)},
	})
	b.fails["second.190"], b.fails["second.3"] = true, true
	id := b.start(t, d)
	_, err := b.advancer.Advance(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM calls"), 100, "one turn")
	r, steps := b.end(t, id)
	require.Equal(t, chains.Failed, r.Status)
	require.Len(t, b.sent, 401)
	require.Len(t, steps, 3+chains.MaxShownElements)
	require.Equal(t, map[chains.StepStatus]int{chains.StepSucceeded: 198, chains.StepFailed: 2}, steps["second"].Elements)
	require.Equal(t, map[chains.StepStatus]int{chains.StepSucceeded: 200}, steps["first"].Elements)
	require.Equal(t, chains.StepFailed, steps["second.190"].Status)
	require.Equal(t, chains.StepFailed, steps["second.3"].Status)
	require.Nil(t, steps["last"].Elements)
	body := storetest.Query[string](t, b.Bundle, "SELECT spec ->> 'body' FROM calls WHERE sent_key LIKE '%.last'")
	require.Equal(t, 200, strings.Count(body, "of first."), "the outputs of all elements")
}

// TestACanceledWideRunEnds cancels a run with more elements than one turn ends.
func TestACanceledWideRunEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := oneCall("wide", "each", "https://shop.example.com/{{item}}")
	d.Inputs = map[string]chains.Input{"list": {Default: []byte("[" + strings.Repeat("1,", 349) + "1]")}}
	d.Steps[0].ForEach, d.Steps[0].Parallel = "input.list", 100
	id := b.start(t, d)
	b.advance(t)
	require.Equal(t, 100, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules WHERE call"))
	require.NoError(t, b.chains.Cancel(t.Context(), storetest.Tenant, id))
	r, steps := b.end(t, id)
	for range 5 {
		b.now = b.At(b.now.Add(2 * time.Second))
		r, steps = b.end(t, id)
	}
	require.Equal(t, chains.Canceled, r.Status)
	require.Equal(t, map[chains.StepStatus]int{chains.StepCanceled: 100, chains.StepSkipped: 250}, steps["each"].Elements)
	require.Empty(t, b.sent)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules WHERE call"))
}

// TestCompensationsOfAWideStepHaveTheirValues compensates elements that ended in different turns.
func TestCompensationsOfAWideStepHaveTheirValues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := oneCall("wide", "each", "https://shop.example.com/{{item}}")
	d.OnFailure = chains.Compensate
	d.Inputs = map[string]chains.Input{"list": {Default: []byte(`["x", "y", "z"]`)}}
	d.Steps[0].ForEach, d.Steps[0].Parallel = "input.list", 1
	d.Steps[0].Compensation = &chains.Compensation{Request: &chains.Request{URL: "https://shop.example.com/undo/{{item}}?of={{output.id}}"}}
	b.fails["each.2"] = true
	r, _ := b.end(t, b.start(t, d))
	require.Equal(t, chains.Compensated, r.Status)
	for i, item := range []string{"x", "y"} {
		require.Equal(t, fmt.Sprintf("https://shop.example.com/undo/%s?of=of%%20each.%d", item, i),
			storetest.Query[string](t, b.Bundle, "SELECT spec ->> 'url' FROM calls WHERE sent_key LIKE '%.each.' || $1::text || '.compensation'", fmt.Sprint(i)))
	}
}
