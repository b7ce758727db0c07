package endpoints_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// ask queues a one-off run a millisecond after the last change.
func (b *bundle) ask(t *testing.T, r endpoints.OneOffRequest) endpoints.Queued {
	t.Helper()
	b.pass(time.Millisecond)
	queued, err := b.RunNow(t.Context(), actor, b.id, r)
	require.NoError(t, err)
	return queued
}

func TestOneOffRunsTakeTurnsByPriorityAndAge(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.run(t, nil)
	var slots []time.Time
	for _, priority := range []endpoints.PriorityName{"low", "", "high", "normal", "critical", "high"} {
		slots = append(slots, b.ask(t, endpoints.OneOffRequest{Priority: priority}).Slot)
	}
	var order []int
	for range slots {
		due := b.endpoint().State.Due
		require.Equal(t, governor.SourceManual, due.Source)
		for i, slot := range slots {
			if slot.Equal(due.Slot) {
				order = append(order, i)
			}
		}
		b.run(t, nil)
	}
	require.Equal(t, []int{4, 2, 5, 1, 3, 0}, order)
	require.Equal(t, governor.SourceBaselineInterval, b.endpoint().State.Due.Source)
}

// TestAOneOffRunBehindAnotherLeavesItsClaim queues a second one-off run. The plan stays without a
// new decision, because a worker may have claimed it.
func TestAOneOffRunBehindAnotherLeavesItsClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.ask(t, endpoints.OneOffRequest{})
	decisions := len(b.memory.ledger)
	require.Equal(t, 2, b.ask(t, endpoints.OneOffRequest{}).Waiting)
	require.Len(t, b.memory.ledger, decisions)
	b.ask(t, endpoints.OneOffRequest{Priority: "high"})
	require.Len(t, b.memory.ledger, decisions+1, "one that goes before it is planned in its place")
}

// TestRequestsInOneMillisecondAreRunsOfTheirOwn asks three times at the same instant of the
// database's clock.
func TestRequestsInOneMillisecondAreRunsOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for n := range 3 {
		queued, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
		require.NoError(t, err)
		require.Equal(t, b.memory.now.Add(time.Duration(n)*time.Millisecond), queued.Slot)
	}
}

func TestAKeyNamesOneRun(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.Method = "POST" })
	request := endpoints.OneOffRequest{Key: new("export-7"), Override: endpoints.Override{Body: new("a")}, Deadline: new(time.Hour)}
	first := b.ask(t, request)
	require.Equal(t, endpoints.Queued{Slot: first.Slot, Repeated: true}, b.ask(t, request))
	b.run(t, nil)
	require.Equal(t, endpoints.Queued{Slot: first.Slot, Repeated: true}, b.ask(t, request), "after its end, too")

	request.Override.Body = new("b")
	_, err := b.RunNow(t.Context(), actor, b.id, request)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.ErrorContains(t, err, "use another key")
	request.Key = new("export-8")
	require.NotEqual(t, first.Slot, b.ask(t, request).Slot)
}

func TestOneOffRunsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.LimitWaiting(2)
	b.ask(t, endpoints.OneOffRequest{})
	b.memory.begin(b.endpoint())
	b.ask(t, endpoints.OneOffRequest{})
	b.ask(t, endpoints.OneOffRequest{})
	_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.Equal(t, errs.Exhausted, errs.CodeOf(err))
	require.ErrorContains(t, err, "2 one-off runs of the endpoint wait already")
	require.Len(t, b.memory.queue, 3, "the one in flight does not wait")
}

func TestABadOneOffRequestNamesEveryField(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{
		Priority: "urgent", Deadline: new(time.Duration(0)), Key: new(strings.Repeat("x", 256)),
		Override: endpoints.Override{Body: new(strings.Repeat("x", 262145)), Headers: map[string]string{"Host": "a"}, Query: map[string]string{"q": "{{nonsense"}},
	})
	require.Equal(t, []string{
		"priority invalid_value", "deadlineMs out_of_range", "idempotencyKey invalid_value", "body too_long", "query.q template_invalid", "headers.Host header_forbidden",
	}, fields(t, err))
	require.Empty(t, b.memory.queue)
}

// TestAnOverrideIsCheckedWithTheFieldsThatItLeavesAlone overrides a field so that another one,
// which the endpoint keeps, is no longer allowed.
func TestAnOverrideIsCheckedWithTheFieldsThatItLeavesAlone(t *testing.T) {
	t.Parallel()
	const secret = `tok={{secret "api-token"}}`
	leaking := valid()
	leaking.Method, leaking.Body = "POST", secret
	for name, tc := range map[string]struct {
		spec     func(*endpoints.Spec)
		override endpoints.Override
		want     string
	}{
		"SecretBody": {func(s *endpoints.Spec) { s.Method, s.FollowRedirects = "POST", 3 }, endpoints.Override{Body: new(secret)}, "followRedirects redirect_leaks"},
		"SecretBodyOfAnEarlierRun": {
			func(s *endpoints.Spec) { s.Method, s.FollowRedirects = "POST", 3 },
			endpoints.Override{Whole: new(leaking.Whole())},
			"followRedirects redirect_leaks",
		},
		"ContentType": {
			func(s *endpoints.Spec) {
				s.Method, s.Headers, s.Body = "POST", map[string]string{"Content-Type": "text/plain"}, "[{{run.id}}"
			},
			endpoints.Override{Headers: map[string]string{"content-type": "application/json"}},
			"body template_invalid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tc.spec)
			_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{Override: tc.override})
			require.Equal(t, []string{tc.want}, fields(t, err))
			require.Empty(t, b.memory.queue)
		})
	}
}

// TestAFaultOfTheEndpointIsNoFaultOfAnOverride has an endpoint that the rules of today refuse.
func TestAFaultOfTheEndpointIsNoFaultOfAnOverride(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.Method = "POST" })
	b.endpoint().Spec.Timezone = "Europe/Nowhere"
	b.ask(t, endpoints.OneOffRequest{Override: endpoints.Override{Body: new("x")}})
	require.Len(t, b.memory.queue, 1)
}

func TestAnOverrideStandsInPlaceOfTheRequest(t *testing.T) {
	t.Parallel()
	spec := valid()
	spec.Body, spec.Headers, spec.Query = "old", map[string]string{"x-day": "1", "Accept": "a"}, map[string]string{"q": "1", "r": "2"}
	got := endpoints.Override{Body: new(""), Headers: map[string]string{"X-Day": "2"}, Query: map[string]string{"q": "3"}}.Apply(spec)
	require.Empty(t, got.Body)
	require.Equal(t, map[string]string{"X-Day": "2", "Accept": "a"}, got.Headers)
	require.Equal(t, map[string]string{"q": "3", "r": "2"}, got.Query)
	require.Equal(t, "1", spec.Headers["x-day"], "the endpoint's is left alone")
}

// TestAOneOffRunThatFailsKeepsItsTurn has two one-off runs, the first with a retry in a while.
// Meanwhile the second runs, and then the schedule as far as it is due.
func TestAOneOffRunThatFailsKeepsItsTurn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) {
		s.BaselineInterval, s.Retry = 10*time.Second, endpoints.Retry{MaxAttempts: 3, Backoff: time.Minute, MaxBackoff: time.Minute}
	})
	first := b.ask(t, endpoints.OneOffRequest{})
	second := b.ask(t, endpoints.OneOffRequest{})
	b.run(t, func(f *endpoints.Finished) { failed(f); f.RetryAfter = b.memory.now.Add(15 * time.Second) })
	require.Equal(t, second.Slot, b.endpoint().State.Due.Slot)
	require.Zero(t, b.endpoint().State.FailureCount, "it has failed when its last attempt has")
	b.run(t, nil)
	for b.endpoint().State.Due.Source != governor.SourceManual {
		b.run(t, nil)
	}
	due := b.endpoint().State.Due
	require.Equal(t, first.Slot, due.Slot)
	require.Equal(t, 2, due.Attempt)
	b.run(t, failed)
	for b.endpoint().State.Due.Source != governor.SourceManual {
		b.run(t, nil)
	}
	require.Equal(t, 3, b.endpoint().State.Due.Attempt)
	b.run(t, failed)
	require.Equal(t, 1, b.endpoint().State.FailureCount)
	require.Empty(t, b.memory.queue)
}

// TestWithdrawnOneOffRunIsNotRetried pauses and resumes an endpoint during its one-off run, which
// then fails.
func TestWithdrawnOneOffRunIsNotRetried(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 3 })
	b.ask(t, endpoints.OneOffRequest{})
	b.ask(t, endpoints.OneOffRequest{})
	b.memory.begin(b.endpoint())
	_, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.Empty(t, b.memory.queue)
	_, err = b.Resume(t.Context(), actor, b.id)
	require.NoError(t, err)
	b.run(t, failed)
	require.Equal(t, governor.SourceBaselineInterval, b.endpoint().State.Due.Source)
	require.Equal(t, 1, b.endpoint().State.Due.Attempt)
}

// TestLostOneOffRunIsRetried: the budget for lost runs is separate from the
// retry policy, which allows one attempt here.
func TestLostOneOffRunIsRetried(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
	b.run(t, nil)
	slot := b.ask(t, endpoints.OneOffRequest{}).Slot
	for n := 1; n <= endpoints.InfraBudget; n++ {
		decided := b.run(t, lost)
		require.Equal(t, endpoints.RuleInfraRetry, decided.Decision.Steps[len(decided.Decision.Steps)-1].Rule)
		due := b.endpoint().State.Due
		require.Equal(t, endpoints.Due{At: due.At, Slot: slot, Attempt: 1, InfraAttempt: n, Source: governor.SourceManual}, due)
	}
	b.run(t, func(f *endpoints.Finished) { lost(f); f.InfraAttempt = endpoints.InfraBudget })
	require.Equal(t, governor.SourceBaselineInterval, b.endpoint().State.Due.Source)
	require.Empty(t, b.memory.queue)
}
