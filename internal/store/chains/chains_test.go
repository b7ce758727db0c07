package chains_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/chains"
	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/loop"
	"rubato/internal/runs"
	callstore "rubato/internal/store/calls"
	chainstore "rubato/internal/store/chains"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// bundle is a database with an advancer, and a worker that carries out the runs by a script.
type bundle struct {
	*storetest.Bundle

	chains   *chains.Service
	advancer *chainstore.Advancer
	registry *prometheus.Registry
	worker   storetest.Worker
	now      time.Time
	// endpoints are those of the steps by name.
	endpoints map[string]*endpoints.Endpoint
	// sent are the Idempotency-Keys of the requests after the ID of the run, in their order.
	sent []string
	// fails are the keys that the target refuses for good, and busy those that it refuses with 503.
	fails, busy map[string]bool
	// answers are the bodies of answers by key, in place of an ID.
	answers map[string]string
}

// trap allows every URL but one, which it checks with a panic.
type trap struct{ storetest.AnyTarget }

func (trap) CheckURL(url string) *errs.Field {
	if strings.HasSuffix(url, "/trap") {
		panic("a trap")
	}
	return nil
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		Bundle:    storetest.Setup(t),
		registry:  prometheus.NewRegistry(),
		worker:    storetest.Worker{1},
		endpoints: map[string]*endpoints.Endpoint{},
		fails:     map[string]bool{},
		busy:      map[string]bool{},
		answers:   map[string]string{},
	}
	store := chainstore.New(b.DB)
	b.chains = chains.NewService(store, store)
	b.advancer = chainstore.NewAdvancer(chainstore.Config{
		DB:        b.DB,
		Endpoints: b.Endpoints,
		Service:   b.Service,
		Calls:     calls.NewService(callstore.New(b.DB), trap{}),
		Cancels:   b.Runs,
		Loops:     loop.NewRunner(slog.New(slog.DiscardHandler), b.registry),
		Logger:    slog.New(slog.DiscardHandler),

		Registerer: b.registry,
	})
	b.now = b.At(storetest.Noon())
	return b
}

// counter returns the value of a counter with a label.
func (b *bundle) counter(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	require.Fail(t, "no series", "%s %s", name, label)
	return 0
}

// step returns a step on an endpoint of its own.
func (b *bundle) step(t *testing.T, name string, after ...string) chains.StepSpec {
	t.Helper()
	s := chains.StepSpec{Name: name, EndpointID: b.endpoint(t, name), After: after, Outputs: map[string]string{"id": "$.id"}}
	s.Compensation = &chains.Compensation{
		EndpointID: b.endpoint(t, name+"Undo"),
		Request:    &chains.Request{Body: new(`{"undo": {{output.id}}}`)},
	}
	return s
}

func (b *bundle) endpoint(t *testing.T, name string) string {
	t.Helper()
	b.endpoints[name] = b.Register(t, func(s *endpoints.Spec) { s.Method, s.StartAt = "POST", b.now.Add(24*time.Hour) })
	return b.endpoints[name].ID.String()
}

// start stores a chain and starts a run.
func (b *bundle) start(t *testing.T, d chains.Definition) chains.RunID {
	t.Helper()
	return b.startBy(t, storetest.Tenant, d)
}

// startBy is start for a tenant.
func (b *bundle) startBy(t *testing.T, by auditlog.Actor, d chains.Definition) chains.RunID {
	t.Helper()
	_, _, err := b.chains.Put(t.Context(), by, d)
	require.NoError(t, err)
	r, created, err := b.chains.Start(t.Context(), by, d.Name, nil, "once")
	require.NoError(t, err)
	require.True(t, created)
	return r.ID
}

// advance advances until nothing is left to do at this instant.
func (b *bundle) advance(t *testing.T) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = b.advancer.Advance(t.Context())
		require.NoError(t, err)
	}
}

// work carries out what is due, once.
func (b *bundle) work(t *testing.T) (worked bool) {
	t.Helper()
	b.now = b.At(b.now.Add(2 * time.Millisecond))
	for _, c := range b.Claim(t, b.worker, 0) {
		worked = true
		b.carryOut(t, c)
	}
	return worked
}

// carryOut sends the request of one claim.
func (b *bundle) carryOut(t *testing.T, c claims.Claim) {
	t.Helper()
	targets, err := b.Executions.Targets(t.Context(), []claims.Claim{c})
	require.NoError(t, err)
	target := targets[c.EndpointID]
	_, key, _ := strings.Cut(target.SentKey, ".")
	started := b.Start(t, b.worker, c)[0]
	end := storetest.Succeed(b.worker, c, started)
	if !target.Deadline.IsZero() && target.Deadline.Before(b.now) {
		end.Outcome = runs.Outcome{Status: runs.Skipped, Reason: runs.DeadlinePassed}
		b.Finish(t, b.worker, 0, end)
		return
	}
	b.sent = append(b.sent, key)
	if b.busy[key] {
		b.Finish(t, b.worker, 0, storetest.Fail(b.worker, c, started))
		return
	}
	end.Outcome.ContentType, end.Outcome.Body = "application/json", fmt.Appendf(nil, `{"id": "of %s"}`, key)
	if body, given := b.answers[key]; given {
		end.Outcome.Body = []byte(body)
	}
	if b.fails[key] {
		end.Outcome = runs.Outcome{Status: runs.Failed, Reason: runs.HTTPStatus, StatusCode: 409}
	}
	b.Finish(t, b.worker, 0, end)
}

// end carries out the run of a chain to its end.
func (b *bundle) end(t *testing.T, id chains.RunID) (chains.Record, map[string]chains.StepRecord) {
	t.Helper()
	for b.advance(t); b.work(t); b.advance(t) {
	}
	return b.read(t, id)
}

func (b *bundle) read(t *testing.T, id chains.RunID) (chains.Record, map[string]chains.StepRecord) {
	t.Helper()
	r, steps, err := b.chains.Run(t.Context(), storetest.Tenant.TenantID, id)
	require.NoError(t, err)
	byName := map[string]chains.StepRecord{}
	for _, s := range steps {
		if s.Index == chains.Whole {
			byName[s.Name] = s
		} else {
			byName[fmt.Sprintf("%s.%d", s.Name, s.Index)] = s
		}
	}
	return r, byName
}

// saga is a chain of four steps.
func (b *bundle) saga(t *testing.T) chains.Definition {
	t.Helper()
	return chains.Definition{Name: "order", OnFailure: chains.Compensate, Steps: []chains.StepSpec{
		b.step(t, "a"), b.step(t, "b", "a"), b.step(t, "c", "b"), b.step(t, "d", "c"),
	}}
}

// callSaga is a saga whose steps send calls.
func callSaga() chains.Definition {
	d := chains.Definition{Name: "order", OnFailure: chains.Compensate, Inputs: map[string]chains.Input{"n": {Default: []byte("7")}}}
	for i, name := range []string{"a", "b", "c", "d"} {
		s := chains.StepSpec{
			Name:    name,
			Request: &chains.Request{URL: "https://shop.example.com/" + name + "/{{input.n}}", Body: new(`{"n": {{input.n}}}`)},
			Outputs: map[string]string{"id": "$.id"},
			Compensation: &chains.Compensation{
				Request: &chains.Request{URL: "https://shop.example.com/undo?of={{output.id}}", Method: "DELETE"},
			},
		}
		if i > 0 {
			s.After = []string{d.Steps[i-1].Name}
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// TestStepsWithoutAnEndpointAreCalls runs a saga whose third call fails, and one that succeeds.
func TestStepsWithoutAnEndpointAreCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fails["c"] = true
	r, steps := b.end(t, b.start(t, callSaga()))
	require.Equal(t, []string{"a", "b", "c", "b.compensation", "a.compensation"}, b.sent)
	require.Equal(t, chains.Compensated, r.Status)
	require.Equal(t, "http_status", steps["c"].Reason)
	require.JSONEq(t, `{"id": "of b"}`, string(steps["b"].Output))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters"), "the failed step")
	require.Equal(t, "https://shop.example.com/b/7", storetest.Query[string](t, b.Bundle, "SELECT spec ->> 'url' FROM calls WHERE sent_key LIKE '%.b'"))
	require.Equal(t, "https://shop.example.com/undo?of=of%20b", storetest.Query[string](t, b.Bundle, "SELECT spec ->> 'url' FROM calls WHERE sent_key LIKE '%.b.compensation'"))
	require.JSONEq(t, `{"attempts": 5, "priority": "critical"}`, storetest.Query[string](t, b.Bundle,
		"SELECT jsonb_build_object('attempts', spec -> 'retry' -> 'maxAttempts', 'priority', spec ->> 'priority')::text FROM calls WHERE sent_key LIKE '%.b.compensation'"))
	delete(b.fails, "c")
	again, _, err := b.chains.Start(t.Context(), storetest.Tenant, "order", nil, "again")
	require.NoError(t, err)
	b.now = b.At(b.now.Add(2 * time.Millisecond))
	r, _ = b.end(t, again.ID)
	require.Equal(t, chains.Succeeded, r.Status)
}

// TestACanceledChainDropsItsWaitingCall cancels before the first call is sent, and while it is in
// flight.
func TestACanceledChainDropsItsWaitingCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := callSaga()
	d.OnFailure = chains.Stop
	id := b.start(t, d)
	b.advance(t)
	require.NoError(t, b.chains.Cancel(t.Context(), storetest.Tenant, id))
	r, steps := b.end(t, id)
	require.Equal(t, chains.Canceled, r.Status)
	require.Equal(t, chains.StepCanceled, steps["a"].Status)
	require.Equal(t, chains.ReasonCanceled, steps["a"].Reason)
	require.Empty(t, b.sent)

	started, _, err := b.chains.Start(t.Context(), storetest.Tenant, "order", nil, "again")
	require.NoError(t, err)
	b.now = b.At(b.now.Add(2 * time.Millisecond))
	b.advance(t)
	b.now = b.At(b.now.Add(2 * time.Millisecond))
	c := b.ClaimOne(t, b.worker)
	run := storetest.Succeed(b.worker, c, b.Start(t, b.worker, c)[0])
	require.NoError(t, b.chains.Cancel(t.Context(), storetest.Tenant, started.ID))
	b.advance(t)
	require.NotZero(t, b.Run(t, run.ID).CancelRequestedAt, "the run in flight is canceled")
	run.Outcome = runs.Outcome{Status: runs.Canceled, Reason: runs.CanceledByUser, MaybeSent: true}
	b.Finish(t, b.worker, 0, run)
	b.now = b.At(b.now.Add(2 * time.Second))
	r, _ = b.end(t, started.ID)
	require.Equal(t, chains.Canceled, r.Status)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules WHERE call"))
}

// TestARefusedCallFailsItsStep fills the URL of a step with a value that makes it too long.
func TestARefusedCallFailsItsStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := callSaga()
	d.OnFailure = chains.Stop
	d.Inputs["n"] = chains.Input{Default: fmt.Appendf(nil, "%q", strings.Repeat("x", 2040))}
	r, steps := b.end(t, b.start(t, d))
	require.Equal(t, chains.Failed, r.Status)
	require.Contains(t, []string{chains.ReasonRequestRefused, chains.ReasonTemplateFailed}, steps["a"].Reason)
	require.Contains(t, steps["a"].Error, "url")
	require.Empty(t, b.sent)
}

func TestAFailedStepIsCompensatedLastInFirstOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fails["c"] = true
	r, steps := b.end(t, b.start(t, b.saga(t)))
	require.Equal(t, []string{"a", "b", "c", "b.compensation", "a.compensation"}, b.sent)
	require.Equal(t, chains.Compensated, r.Status)
	require.Equal(t, chains.ReasonStepFailed, r.Reason)
	require.Equal(t, chains.UndoDone, steps["b"].Undo)
	require.Equal(t, "http_status", steps["c"].Reason)
	require.Equal(t, chains.ReasonStepFailed, steps["d"].Reason)
	require.JSONEq(t, `{"id": "of b"}`, string(steps["b"].Output))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters"), "the failed step")
}

func TestAFailedCompensationIsADeadLetterAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fails["c"], b.fails["b.compensation"] = true, true
	r, steps := b.end(t, b.start(t, b.saga(t)))
	require.Equal(t, []string{"a", "b", "c", "b.compensation", "a.compensation"}, b.sent)
	require.Equal(t, chains.CompensationFailed, r.Status)
	require.InDelta(t, 1, b.counter(t, "rubato_chains_ended_total", "compensation_failed"), 0)
	require.Zero(t, b.counter(t, "rubato_chains_ended_total", "compensated"))
	require.Equal(t, chains.UndoFailed, steps["b"].Undo)
	require.Equal(t, chains.UndoDone, steps["a"].Undo)
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters"))
}

// TestACompensationIsTriedFiveTimes refuses the compensations of an endpoint without retries and of
// a call, both of them POST requests that are not marked as idempotent.
func TestACompensationIsTriedFiveTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.saga(t)
	d.Steps[0].Compensation = &chains.Compensation{Request: &chains.Request{URL: "https://shop.example.com/undo"}}
	b.fails["c"], b.busy["b.compensation"], b.busy["a.compensation"] = true, true, true
	id := b.start(t, d)
	r, _ := b.end(t, id)
	for !r.Status.Over() {
		b.now = b.At(b.now.Add(time.Minute))
		r, _ = b.end(t, id)
	}
	require.Equal(t, chains.CompensationFailed, r.Status)
	b.sent = slices.DeleteFunc(b.sent, func(key string) bool { return key == "" }) // Runs by schedule.
	require.Equal(t, slices.Concat([]string{"a", "b", "c"}, slices.Repeat([]string{"b.compensation"}, 5), slices.Repeat([]string{"a.compensation"}, 5)), b.sent)
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters"))
}

func TestAChainThatSucceedsHasItsOutputs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.saga(t)
	d.Steps[1].ForEach, d.Inputs = "input.list", map[string]chains.Input{"list": {Default: []byte(`["x", {"y": 1}]`)}}
	d.Outputs = map[string]string{"all": "steps.b.output.id", "last": "steps.d.output.id"}
	r, steps := b.end(t, b.start(t, d))
	require.Equal(t, chains.Succeeded, r.Status)
	require.JSONEq(t, `{"all": ["of b.0", "of b.1"], "last": "of d"}`, string(r.Output))
	require.JSONEq(t, `{"y": 1}`, string(steps["b.1"].Item))
	require.NotZero(t, steps["b.1"].RunID)
	again, created, err := b.chains.Start(t.Context(), storetest.Tenant, "order", nil, "once")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, r.ID, again.ID)
}

// TestAKeyStandsForOneInput repeats a start with the input as it was written, which Postgres stores
// in another form, and with another input.
func TestAKeyStandsForOneInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.saga(t)
	d.Inputs = map[string]chains.Input{"total": {Required: true}}
	_, _, err := b.chains.Put(t.Context(), storetest.Tenant, d)
	require.NoError(t, err)
	start := func(input string) (chains.Record, bool, error) {
		return b.chains.Start(t.Context(), storetest.Tenant, d.Name, []byte(input), "k")
	}
	r, created, err := start(`{"total": 1e2}`)
	require.NoError(t, err)
	require.True(t, created)
	again, created, err := start(`{"total": 1e2}`)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, r.ID, again.ID)
	_, _, err = start(`{"total": 101}`)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
}

// TestAPauseOfAnEndpointFailsItsStep withdraws the waiting run of a step.
func TestAPauseOfAnEndpointFailsItsStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(t, b.saga(t))
	b.advance(t)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, b.endpoints["a"].ID, endpoints.PauseRequest{Reason: "r"})
	require.NoError(t, err)
	r, steps := b.end(t, id)
	require.Equal(t, chains.Compensated, r.Status)
	require.Equal(t, "withdrawn", steps["a"].Reason)
	require.Empty(t, b.sent)
}

// TestAnArchivedEndpointFailsItsStep archives the endpoint of a step whose run is in flight, and
// that of a later one.
func TestAnArchivedEndpointFailsItsStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(t, b.saga(t))
	b.advance(t)
	b.now = b.At(b.now.Add(2 * time.Millisecond))
	c := b.ClaimOne(t, b.worker)
	started := b.Start(t, b.worker, c)[0]
	for _, name := range []string{"a", "b"} {
		require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, b.endpoints[name].ID, 0))
	}
	b.advance(t)
	_, steps := b.read(t, id)
	require.Equal(t, chains.StepActive, steps["a"].Status, "its run is in flight")
	b.Finish(t, b.worker, 0, storetest.Succeed(b.worker, c, started))
	b.now = b.At(b.now.Add(2 * time.Second))
	r, steps := b.end(t, id)
	require.Equal(t, chains.StepSucceeded, steps["a"].Status)
	require.Equal(t, chains.ReasonRequestRefused, steps["b"].Reason)
	require.Equal(t, chains.Compensated, r.Status)
}

func TestACanceledChainSendsNothingMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.saga(t)
	d.OnFailure = chains.Stop
	id := b.start(t, d)
	b.advance(t)
	require.NoError(t, b.chains.Cancel(t.Context(), storetest.Tenant, id))
	b.advance(t)
	b.now = b.At(b.now.Add(2 * time.Second))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM one_off_items WHERE deadline_at <= $1", b.now))
	r, steps := b.end(t, id)
	require.Equal(t, chains.Canceled, r.Status)
	require.Equal(t, chains.StepCanceled, steps["a"].Status)
	require.Equal(t, chains.ReasonCanceled, steps["a"].Reason)
	require.Equal(t, chains.ReasonCanceled, steps["b"].Reason)
	require.Empty(t, b.sent)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters"), "a canceled step is not given up")
	require.ErrorContains(t, b.chains.Cancel(t.Context(), storetest.Tenant, id), "is over (canceled)")
}

var errKilled = errors.New("killed")

// TestAKilledAdvancerLosesAndRepeatsNothing lets every second advance of a saga fail before its
// commit, and two advancers compete for the others. The target gets each request once, in order.
func TestAKilledAdvancerLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fails["c"] = true
	id := b.start(t, b.saga(t))
	for worked := true; worked; worked = b.work(t) {
		// The row of the run is locked by a transaction that dies: nothing is advanced meanwhile.
		err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT FROM chain_runs FOR UPDATE")
			require.NoError(t, err)
			found, err := b.advancer.Advance(t.Context())
			require.NoError(t, err)
			require.False(t, found, "two advance one run at once")
			return errKilled
		})
		require.ErrorIs(t, err, errKilled)
		dying, kill := context.WithCancel(t.Context())
		kill()
		_, err = b.advancer.Advance(dying)
		require.Error(t, err)
		b.advance(t)
	}
	r, _ := b.read(t, id)
	require.Equal(t, chains.Compensated, r.Status)
	require.Equal(t, []string{"a", "b", "c", "b.compensation", "a.compensation"}, b.sent)
}

// TestRunsOutliveTheirChain deletes a chain while a run of it is in progress.
func TestRunsOutliveTheirChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(t, b.saga(t))
	b.advance(t)
	require.NoError(t, b.chains.Delete(t.Context(), storetest.Tenant, "order"))
	_, err := b.chains.Get(t.Context(), storetest.Tenant.TenantID, "order")
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.Equal(t, errs.NotFound, errs.CodeOf(b.chains.Delete(t.Context(), storetest.Tenant, "order")))
	r, _ := b.end(t, id)
	require.Equal(t, chains.Succeeded, r.Status)
	require.Equal(t, []string{"a", "b", "c", "d"}, b.sent)
}

// TestRunsOfChainsAreKeptAsLongAsRuns has a run that ended, and one that is in progress for longer
// than the retention.
func TestRunsOfChainsAreKeptAsLongAsRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended := b.start(t, b.saga(t))
	b.end(t, ended)
	open, _, err := b.chains.Start(t.Context(), storetest.Tenant, "order", nil, "again")
	require.NoError(t, err)
	left := func(day int) []chains.RunID {
		b.At(b.now.AddDate(0, 0, day))
		_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 48 * time.Hour, Bodies: time.Hour})
		require.NoError(t, err)
		list, err := b.chains.Runs(t.Context(), storetest.Tenant.TenantID, "order", chains.RunID{}, 9)
		require.NoError(t, err)
		ids := make([]chains.RunID, len(list))
		for i, r := range list {
			ids[i] = r.ID
		}
		return ids
	}
	require.ElementsMatch(t, []chains.RunID{open.ID, ended}, left(1))
	require.Equal(t, []chains.RunID{open.ID}, left(3))
	require.Equal(t, 4, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_steps"), "those of the open run")
}
