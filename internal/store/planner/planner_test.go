package planner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/planner"
	callstore "rubato/internal/store/calls"
	keystore "rubato/internal/store/keys"
	plannerstore "rubato/internal/store/planner"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
)

const analysisLock = time.Minute

// planning is a bundle with two planners' views of the queue.
type planning struct {
	*bundle

	one, two *plannerstore.Queue
	evidence *plannerstore.Evidence
	reviews  *plannerstore.Reviews
}

func setupPlanning(t *testing.T) *planning {
	t.Helper()
	b := setup(t)
	return &planning{
		bundle: b, one: plannerstore.NewQueue(b.States, uuid.New(), analysisLock), two: plannerstore.NewQueue(b.States, uuid.New(), analysisLock),
		evidence: plannerstore.NewEvidence(b.States), reviews: plannerstore.NewReviews(b.States, plannerstore.Limits{Installation: 1000, Tenant: 100, Endpoint: 50}),
	}
}

// endpoint registers one that runs every minute, or every ten seconds where the planner, which
// acts, finds that better.
func (p *planning) endpoint(t *testing.T, change func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Planner, spec.MinInterval = endpoints.PlannerAct, 10*time.Second
	spec.Name, spec.URL, spec.BaselineInterval = "p", "https://example.com/", time.Minute
	if change != nil {
		change(&spec)
	}
	e, _, err := p.Service.Register(t.Context(), storetest.Tenant, spec)
	require.NoError(t, err)
	return e
}

// claim watches and claims everything that is due.
func (p *planning) claim(t *testing.T, q *plannerstore.Queue) []planner.Claim {
	t.Helper()
	require.NoError(t, q.DetectChanges(t.Context()))
	list, err := q.Claim(t.Context(), 10)
	require.NoError(t, err)
	return list
}

// closing returns the completion of a session that sets an interval hint.
func (p *planning) closing(e *endpoints.Endpoint) planner.Completion {
	now := time.Now()
	return planner.Completion{
		Session: &planner.Session{
			ID: planner.NewSessionID(), TenantID: e.TenantID, EndpointID: e.ID, Version: e.Version, StartedAt: now, Advisor: "test",
			Trigger: planner.NeverAnalysed, Authority: planner.Act, Outcome: planner.Acted, NextAt: now.Add(time.Hour),
		},
		NextAt: now.Add(time.Hour), NotBefore: now.Add(time.Minute), Memory: planner.Memory{Direction: -1},
		Apply: func(e *endpoints.Endpoint, _ []endpoints.Hold, now time.Time) (*endpoints.Recorded, error) {
			ttl := time.Hour
			return e.ApplyAdvice(now, auditlog.Actor{TenantID: e.TenantID, Name: "planner:test"}, "planner:test", endpoints.Advice{
				Interval: &endpoints.HintRequest{Interval: 20 * time.Second, TTL: &ttl, Reason: "a test"},
			})
		},
	}
}

func (p *planning) count(t *testing.T, table string) (n int) {
	t.Helper()
	require.NoError(t, p.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func TestAnalysisIsClaimedOnceAndWrittenAtOnce(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)

	mine := p.claim(t, p.one)
	require.Len(t, mine, 1)
	require.Equal(t, planner.NeverAnalysed, mine[0].Trigger)
	require.Empty(t, p.claim(t, p.two), "two planners never analyse the same endpoint")
	require.NoError(t, p.one.Complete(t.Context(), mine[0], p.closing(e)))

	stored, _, err := p.Service.Get(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, "planner:test", stored.State.IntervalHint.Author)
	require.Equal(t, 20*time.Second, stored.State.IntervalHint.Interval)
	require.Equal(t, e.Version, stored.Version, "the configuration is not the planner's")
	last, err := p.Service.Explain(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, "planner:test", last.Author)
	sessions, err := p.reviews.Sessions(t.Context(), planner.SessionFilter{TenantID: keystore.DefaultTenant, Limit: 10})
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	require.False(t, sessions[0].FinishedAt.IsZero())
	require.Empty(t, p.claim(t, p.one), "its next time has not come")
	require.ErrorIs(t, p.one.Complete(t.Context(), mine[0], p.closing(e)), planner.ErrClaimLost, "a claim ends once")
	require.Equal(t, 1, p.count(t, "planner_sessions"))
}

// TestCallsAndDetachedRunsDoNotConcernThePlanner has rows in the schedules that no endpoint has.
func TestCallsAndDetachedRunsDoNotConcernThePlanner(t *testing.T) {
	t.Parallel()
	p, me := setupPlanning(t), storetest.Worker{1}
	p.At(storetest.Noon())
	overlapping := p.endpoint(t, func(s *endpoints.Spec) { s.Overlap = governor.OverlapAllow })
	c, started := p.StartOne(t, me)
	_, ours, err := p.Executions.Detach(t.Context(), dispatch.Detaching{
		Worker: me, StartedAt: started.StartedAt, Run: claims.FencedRun{EndpointID: c.EndpointID, RunID: started.RunID, Token: c.Token},
	})
	require.NoError(t, err)
	require.True(t, ours)
	waiting := &calls.Call{ID: calls.NewID(), TenantID: storetest.Tenant.TenantID, Author: storetest.Tenant.Name, Spec: calls.Defaults()}
	waiting.Spec.URL = "https://example.com/"
	waiting.Spec = waiting.Spec.Normalize()
	_, err = callstore.New(p.DB).Send(t.Context(), waiting, func(c *calls.Call, now time.Time) {
		c.CreatedAt, c.NotBefore = now, now.Add(time.Hour)
	})
	require.NoError(t, err)
	require.Equal(t, 3, p.count(t, "schedules"))

	claimed := p.claim(t, p.one)
	require.Len(t, claimed, 1)
	require.Equal(t, overlapping.ID, claimed[0].Account.EndpointID)
	require.Equal(t, 1, p.count(t, "planner_state"))
}

// A planner that has claimed an endpoint again cannot end the new claim with the token of the old
// one.
func TestAnOldClaimOfTheSamePlannerEndsNothing(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	p.endpoint(t, nil)
	old := p.claim(t, p.one)[0]
	p.Exec(t, "UPDATE planner_state SET due_at = now() - interval '1 s'") // Its lock is over.
	current := p.claim(t, p.one)
	require.Len(t, current, 1)

	require.ErrorIs(t, p.one.Park(t.Context(), old, planner.ParkedPaused, 1), planner.ErrClaimLost)
	require.ErrorIs(t, p.one.Park(t.Context(), old, planner.ParkedArchived, 0), planner.ErrClaimLost)
	require.NoError(t, p.one.Release(t.Context(), []planner.Claim{old}))
	require.Empty(t, p.claim(t, p.two), "it is claimed still")
	require.NoError(t, p.one.Release(t.Context(), current))
	require.Len(t, p.claim(t, p.two), 1)
}

// A planner writes nothing after its claim was taken over: the token of the claim fences its
// session.
func TestStaleAnalysisWritesNothing(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	stale := p.claim(t, p.one)[0]
	p.Exec(t, "UPDATE planner_state SET due_at = now() - interval '1 s'") // Its lock is over.
	require.ErrorIs(t, p.one.Complete(t.Context(), stale, p.closing(e)), planner.ErrClaimLost, "over is over, taken or not")
	current := p.claim(t, p.two)
	require.Len(t, current, 1)
	require.Greater(t, current[0].Token, stale.Token)

	require.ErrorIs(t, p.one.Complete(t.Context(), stale, p.closing(e)), planner.ErrClaimLost)
	require.ErrorIs(t, p.one.Park(t.Context(), stale, planner.ParkedOff, 1), planner.ErrClaimLost)
	require.NoError(t, p.one.Release(t.Context(), []planner.Claim{stale}))

	require.Zero(t, p.count(t, "planner_sessions")+p.count(t, "hints"))
	require.Empty(t, p.claim(t, p.one), "the stale release freed nothing")
	require.NoError(t, p.two.Complete(t.Context(), current[0], p.closing(e)))
	require.Equal(t, 1, p.count(t, "planner_sessions"))
}

// A refused transaction leaves nothing behind and keeps the claim, so that the session can still be
// closed as stale.
func TestRefusedRevisionWritesNothing(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	ticket := p.claim(t, p.one)[0]
	_, err := p.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Reason: "a person's"})
	require.NoError(t, err)

	err = p.one.Complete(t.Context(), ticket, p.closing(e))

	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.Zero(t, p.count(t, "planner_sessions")+p.count(t, "hints"))
	unchanged := p.closing(e)
	unchanged.Apply = nil
	require.NoError(t, p.one.Complete(t.Context(), ticket, unchanged))
}

func TestChangedResponseIsAnalysedEarly(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	failing, steady := p.endpoint(t, nil), p.endpoint(t, nil)
	for _, ticket := range p.claim(t, p.one) {
		c := p.closing(failing)
		c.Apply, c.Session.EndpointID, c.SeenStatus, c.NotBefore = nil, ticket.Account.EndpointID, "succeeded", time.Now()
		require.NoError(t, p.one.Complete(t.Context(), ticket, c))
	}
	require.Empty(t, p.claim(t, p.one))
	p.Exec(t, "UPDATE schedules SET last_status = 'succeeded'")
	require.Empty(t, p.claim(t, p.one), "nothing changed")
	for _, streak := range []struct {
		failures int
		changed  bool
	}{{1, true}, {1, false}, {2, true}, {3, false}, {4, true}, {7, false}, {0, true}} {
		status := map[bool]string{true: "succeeded", false: "failed"}[streak.failures == 0]
		p.Exec(t, fmt.Sprintf("UPDATE schedules SET last_status = '%s', failure_count = %d WHERE endpoint_id = '%s'", status, streak.failures, uuid.UUID(failing.ID)))
		list := p.claim(t, p.one)
		if !streak.changed {
			require.Empty(t, list, "%d failures", streak.failures)
			continue
		}
		require.Len(t, list, 1, "%d failures", streak.failures)
		require.Equal(t, failing.ID, list[0].Account.EndpointID)
		require.Equal(t, planner.FailuresChanged, list[0].Trigger)
		c := p.closing(failing)
		c.Apply, c.NotBefore = nil, time.Now()
		require.NoError(t, p.one.Complete(t.Context(), list[0], c))
	}
	p.Exec(t, fmt.Sprintf("UPDATE schedules SET last_status = 'timed_out', failure_count = 0 WHERE endpoint_id = '%s'", uuid.UUID(steady.ID)))
	list := p.claim(t, p.one)
	require.Len(t, list, 1)
	require.Equal(t, planner.OutcomeChanged, list[0].Trigger)
	p.Exec(t, fmt.Sprintf("UPDATE schedules SET failure_count = 1 WHERE endpoint_id = '%s'", uuid.UUID(steady.ID)))
	require.NoError(t, p.one.DetectChanges(t.Context()))
	c := p.closing(steady)
	c.Apply, c.NotBefore = nil, time.Now()
	require.NoError(t, p.one.Complete(t.Context(), list[0], c))
	require.Len(t, p.claim(t, p.one), 1, "what happened during an analysis calls for the next one")
}

func TestParkedEndpointIsAnalysedAgain(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	paused := p.endpoint(t, nil)
	ticket := p.claim(t, p.one)[0]
	_, err := p.Service.Pause(t.Context(), storetest.Tenant, paused.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.NoError(t, p.one.Park(t.Context(), ticket, planner.ParkedPaused, 1))
	require.Empty(t, p.claim(t, p.one))
	_, err = p.Service.Resume(t.Context(), storetest.Tenant, paused.ID)
	require.NoError(t, err)
	ticket = p.claim(t, p.one)[0]

	require.NoError(t, p.one.Park(t.Context(), ticket, planner.ParkedOff, 1))
	require.Empty(t, p.claim(t, p.one))
	_, _, err = p.Service.Edit(t.Context(), storetest.Tenant, paused.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { s.Name = "q"; return s, nil })
	require.NoError(t, err)
	ticket = p.claim(t, p.one)[0]

	require.NoError(t, p.Service.Archive(t.Context(), storetest.Tenant, paused.ID, 0))
	require.NoError(t, p.one.Park(t.Context(), ticket, planner.ParkedArchived, 0))
	require.Empty(t, p.claim(t, p.one))
	require.Zero(t, p.count(t, "planner_state"))
}

// advisorFunc is an advisor that calls a function of the test.
type advisorFunc func(context.Context, planner.Snapshot, planner.Toolset) (planner.Verdict, error)

func (advisorFunc) Name() string { return "stubborn" }

func (s advisorFunc) Advise(ctx context.Context, c planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
	return s(ctx, c, d)
}

// run runs a planner with an advisor until the test ends.
func (p *planning) run(t *testing.T, a planner.Advisor) {
	t.Helper()
	p.serve(t, p.one, a)
}

// sessionOf returns the first session of an endpoint.
func (p *planning) sessionOf(t *testing.T, id endpoints.ID) planner.Session {
	t.Helper()
	var list []planner.Session
	waittest.Until(t, func() bool {
		var err error
		list, err = p.reviews.Sessions(t.Context(), planner.SessionFilter{TenantID: keystore.DefaultTenant, EndpointID: id, Limit: 10})
		require.NoError(t, err)
		return len(list) > 0
	})
	full, err := p.reviews.Session(t.Context(), keystore.DefaultTenant, list[len(list)-1].ID)
	require.NoError(t, err)
	return full
}

func TestAuthorityDecidesEffectOfPlan(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	made := map[planner.Authority]*endpoints.Endpoint{}
	for _, authority := range []planner.Authority{planner.Off, planner.Observe, planner.Suggest, planner.Act} {
		made[authority] = p.endpoint(t, func(s *endpoints.Spec) { s.Planner = authority })
	}
	p.run(t, advisorFunc(func(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: time.Second, TTL: time.Hour, Reason: "faster"})
		if err != nil {
			return planner.Verdict{}, err
		}
		_, err = d.ProposeInterval(ctx, planner.IntervalProposal{Interval: time.Minute / 2, TTL: 25 * time.Hour, Reason: "for too long"})
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
		return planner.Verdict{Reasoning: "because", Confidence: 0.9, NextAnalysisIn: time.Hour}, nil
	}))
	for authority, result := range map[planner.Authority]planner.Result{
		planner.Observe: planner.Observed, planner.Suggest: planner.Suggested, planner.Act: planner.Acted,
	} {
		s := p.sessionOf(t, made[authority].ID)
		require.Equal(t, result, s.Outcome, authority)
		require.Equal(t, []string{"run every 15s for 1h0m0s: faster"}, s.Changes, "a step is 4x at most")
		require.Len(t, s.Calls, 3)
		require.True(t, s.Calls[1].Refused)
		require.Contains(t, s.Calls[1].Result, "24 hours")
		e, _, err := p.Service.Get(t.Context(), storetest.Tenant, made[authority].ID)
		require.NoError(t, err)
		require.Equal(t, authority == planner.Act, e.State.IntervalHint != nil, authority)
	}
	off, err := p.reviews.Sessions(t.Context(), planner.SessionFilter{TenantID: keystore.DefaultTenant, EndpointID: made[planner.Off].ID, Limit: 1})
	require.NoError(t, err)
	require.Empty(t, off)

	all, err := p.reviews.Sessions(t.Context(), planner.SessionFilter{TenantID: keystore.DefaultTenant, Limit: 10})
	require.NoError(t, err)
	require.Len(t, all, 3)
	rest, err := p.reviews.Sessions(t.Context(), planner.SessionFilter{TenantID: keystore.DefaultTenant, Before: all[0].ID, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, all[1:], rest, "a page goes on behind the one before")
	_, err = p.reviews.Session(t.Context(), uuid.New(), all[0].ID)
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "to another tenant it is not there")

	list, err := p.reviews.Suggestions(t.Context(), planner.SuggestionFilter{TenantID: keystore.DefaultTenant, State: planner.Pending, Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	none, err := p.reviews.Suggestions(t.Context(), planner.SuggestionFilter{TenantID: keystore.DefaultTenant, Before: list[0].ID, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, none, "a page goes on behind the one before")
	_, err = p.reviews.Decide(t.Context(), endpoints.Actor{TenantID: uuid.New(), Name: "another tenant's"}, list[0].ID, true)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	decided, err := p.reviews.Decide(t.Context(), storetest.Tenant, list[0].ID, true)
	require.NoError(t, err)
	require.Equal(t, planner.Approved, decided.State)
	require.Equal(t, storetest.Tenant.Name, decided.DecidedBy)
	told := storetest.Logged(t, p.Bundle, func(f *auditlog.Filter) { f.Kind = auditlog.Suggestion })
	require.Len(t, told, 1)
	require.Equal(t, auditlog.Approve, told[0].Action)
	require.Equal(t, list[0].ID.String(), told[0].Object.ID)
	e, _, err := p.Service.Get(t.Context(), storetest.Tenant, made[planner.Suggest].ID)
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, e.State.IntervalHint.Interval)
	require.Equal(t, "planner:stubborn", e.State.IntervalHint.Author)
	_, err = p.reviews.Decide(t.Context(), storetest.Tenant, list[0].ID, false)
	require.Equal(t, errs.Conflict, errs.CodeOf(err), "decided once")
}

func TestARejectionIsLogged(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, func(s *endpoints.Spec) { s.Planner = planner.Suggest })
	p.run(t, advisorFunc(func(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: time.Second, TTL: time.Hour, Reason: "faster"})
		return planner.Verdict{Reasoning: "because", Confidence: 0.9, NextAnalysisIn: time.Hour}, err
	}))
	require.Equal(t, planner.Suggested, p.sessionOf(t, e.ID).Outcome)
	list, err := p.reviews.Suggestions(t.Context(), planner.SuggestionFilter{TenantID: keystore.DefaultTenant, State: planner.Pending, Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	p.Exec(t, "UPDATE planner_suggestions SET expires_at = expires_at - interval '1 year'")
	_, err = p.reviews.Decide(t.Context(), storetest.Tenant, list[0].ID, false)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.ErrorContains(t, err, "it is expired")
	p.Exec(t, "UPDATE planner_suggestions SET expires_at = expires_at + interval '1 year'")
	_, err = p.reviews.Decide(t.Context(), storetest.Tenant, list[0].ID, false)
	require.NoError(t, err)
	_, err = p.reviews.Decide(t.Context(), storetest.Tenant, list[0].ID, false)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))

	told := storetest.Logged(t, p.Bundle, func(f *auditlog.Filter) { f.Kind = auditlog.Suggestion })
	require.Len(t, told, 1, "what was refused is not told")
	require.Equal(t, auditlog.Reject, told[0].Action)
	require.JSONEq(t, `{"state": "pending"}`, string(told[0].Before))
	require.JSONEq(t, `{"state": "rejected", "endpointId": "`+list[0].EndpointID.String()+`"}`, string(told[0].After))
}

// An edit during an analysis stays, and the outcome of that analysis is dropped, because it was
// about the old configuration.
func TestEditDuringAnAnalysisWins(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	p.run(t, advisorFunc(func(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 20 * time.Second, TTL: time.Hour, Reason: "faster"})
		_, _, edited := p.Service.Edit(ctx, storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { s.Name += "+"; return s, nil })
		return planner.Verdict{}, errors.Join(err, edited)
	}))
	s := p.sessionOf(t, e.ID)
	require.Equal(t, planner.Stale, s.Outcome)
	require.Contains(t, strings.Join(s.Warnings, " "), "edited")
	require.Zero(t, p.count(t, "hints"))
}

// An advisor that fails, panics or hangs costs only its own session, which is recorded.
func TestFailuresOfAnAdvisorAreOnRecord(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	faults := map[string]func() error{
		"fails": func() error { return errors.New("broken") }, "panics": func() error { panic("broken") },
		"budget": func() error { return planner.ErrOverBudget }, "away": func() error { return &planner.UnavailableError{Err: errors.New("503")} },
	}
	made := map[string]*endpoints.Endpoint{}
	for name := range faults {
		made[name] = p.endpoint(t, func(s *endpoints.Spec) { s.Name = name })
	}
	p.run(t, advisorFunc(func(ctx context.Context, c planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
		d.AddUsage(planner.Usage{Model: "m", PromptTokens: 7})
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 20 * time.Second, TTL: time.Hour, Reason: "never comes into force"})
		return planner.Verdict{}, errors.Join(err, faults[c.Name]())
	}))
	for name, result := range map[string]planner.Result{
		"fails": planner.Failed, "panics": planner.Failed, "budget": planner.OverBudget, "away": planner.Unreachable,
	} {
		s := p.sessionOf(t, made[name].ID)
		require.Equal(t, result, s.Outcome, name)
		require.Equal(t, int64(7), s.Usage.PromptTokens)
		require.NotContains(t, s.Error, "broken", "a cause is for logs")
	}
	require.Zero(t, p.count(t, "hints"))
}

// TestASpentInstallationLeavesATenantNothing has other tenants use what all share.
func TestASpentInstallationLeavesATenantNothing(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	left := func() int64 {
		t.Helper()
		spent, err := p.reviews.Spending(t.Context(), keystore.DefaultTenant)
		require.NoError(t, err)
		require.Zero(t, spent.Tokens)
		return spent.Left
	}
	require.Equal(t, int64(100), left())
	for i := range 25 {
		other := planner.Account{TenantID: [16]byte{byte(i + 1)}, EndpointID: endpoints.NewID()}
		_, err := p.reviews.Reserve(t.Context(), other, 40)
		require.NoError(t, err)
		require.Equal(t, min(100, 1000-40*int64(i+1)), left())
	}
	_, err := p.reviews.Reserve(t.Context(), planner.Account{TenantID: keystore.DefaultTenant, EndpointID: endpoints.NewID()}, 1)
	require.ErrorIs(t, err, planner.ErrOverBudget)
}

// TestBudgetIsNeverExceeded: 16 planners reserve at once, and their reservations together never
// exceed a limit.
func TestBudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	var granted, refused atomic.Int64
	var all sync.WaitGroup
	accounts := []planner.Account{{TenantID: keystore.DefaultTenant, EndpointID: endpoints.NewID()}, {TenantID: keystore.DefaultTenant, EndpointID: endpoints.NewID()}, {TenantID: keystore.DefaultTenant, EndpointID: endpoints.NewID()}}
	for i := range 16 {
		all.Go(func() {
			for range 4 {
				switch _, err := p.reviews.Reserve(t.Context(), accounts[i%3], 7); {
				case err == nil:
					granted.Add(7)
				case errors.Is(err, planner.ErrOverBudget):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(98), granted.Load(), "14 times 7 fit into 100")
	require.Positive(t, refused.Load())
	spent, err := p.reviews.Spending(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Equal(t, int64(98), spent.Tokens)
	require.Equal(t, int64(2), spent.Left)

	r := planner.Reservation{Account: accounts[0], Day: spent.Day, Tokens: 7}
	require.NoError(t, p.reviews.Settle(t.Context(), r, 2))
	spent, err = p.reviews.Spending(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Equal(t, int64(93), spent.Tokens)
	_, err = p.reviews.Reserve(t.Context(), accounts[0], 51)
	require.ErrorIs(t, err, planner.ErrOverBudget, "more than an endpoint may use at all")
}

// TestPlannerDoesNotRewriteClearedHint clears the planner's hint during a session, and rejects its
// suggestion.
func TestPlannerDoesNotRewriteClearedHint(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	first := p.closing(e)
	first.NextAt, first.NotBefore = time.Now(), time.Now()
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], first))
	under := p.claim(t, p.one)[0]

	_, removed, err := p.Service.ClearHints(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Contains(t, removed[len(removed)-1].Message, "removed the interval hint of planner:test")
	m, err := p.evidence.Load(t.Context(), under.Account)
	require.NoError(t, err)
	require.Len(t, m.Holds, 1)
	require.Equal(t, endpoints.HoldInterval, m.Holds[0].Kind)
	require.WithinDuration(t, m.Now.Add(endpoints.HoldLife), m.Holds[0].Until, time.Minute)

	late := p.closing(e)
	var seen []endpoints.Hold
	late.Apply = func(_ *endpoints.Endpoint, holds []endpoints.Hold, _ time.Time) (*endpoints.Recorded, error) {
		seen = holds
		return nil, errs.New(errs.Conflict, "person_said_no", "no")
	}
	require.Error(t, p.one.Complete(t.Context(), under, late))
	require.Len(t, seen, 1, "the session that was under way is told under the lock")

	other := p.endpoint(t, nil)
	c := p.suggests(other, time.Now())
	c.Suggestion.Plan = planner.Plan{Pause: &planner.PauseProposal{For: time.Minute, Reason: "r"}}
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], c))
	_, err = p.reviews.Decide(t.Context(), storetest.Tenant, c.Suggestion.ID, false)
	require.NoError(t, err)
	m, err = p.evidence.Load(t.Context(), planner.Account{TenantID: storetest.Tenant.TenantID, EndpointID: other.ID})
	require.NoError(t, err)
	require.Len(t, m.Holds, 1)
	require.Equal(t, endpoints.HoldPause, m.Holds[0].Kind)
	require.Error(t, c.Suggestion.CheckHolds(m.Holds, m.Now))
}

// TestAHintForAnOutageIsKept reads back when the outage began.
func TestAHintForAnOutageIsKept(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	began := time.Now().UTC().Add(-time.Minute).Truncate(time.Millisecond)
	c := p.closing(e)
	c.Apply = func(e *endpoints.Endpoint, _ []endpoints.Hold, now time.Time) (*endpoints.Recorded, error) {
		return e.ApplyAdvice(now, auditlog.Actor{TenantID: e.TenantID, Name: "planner:test"}, "planner:test", endpoints.Advice{
			Interval: &endpoints.HintRequest{Interval: 20 * time.Second, TTL: new(time.Hour), Reason: "r", OutageSince: began},
		})
	}
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], c))
	stored, _, err := p.Service.Get(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.True(t, began.Equal(stored.State.IntervalHint.OutageSince))
}
