package planner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/planner"
	"rubato/internal/store/storetest"
)

// suggests returns the completion of a session with a suggestion.
func (p *planning) suggests(e *endpoints.Endpoint, now time.Time) planner.Completion {
	c := p.closing(e)
	c.Apply, c.NextAt, c.NotBefore = nil, now, now
	c.Session.Authority, c.Session.Outcome = planner.Suggest, planner.Suggested
	c.Suggestion = &planner.Suggestion{
		ID: planner.NewSuggestionID(), TenantID: e.TenantID, EndpointID: e.ID, SessionID: c.Session.ID, Advisor: "test", Version: e.Version,
		Reasoning: "its answers never change", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Plan: planner.Plan{Interval: &planner.IntervalProposal{Interval: 2 * time.Minute, TTL: time.Hour, Reason: "it is slow"}},
	}
	return c
}

// TestPendingSuggestionIsNotifiedUntilDecided has two suggestions; a user decides one of them.
func TestPendingSuggestionIsNotifiedUntilDecided(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	now := p.At(storetest.Noon())
	keeper := p.PutRule(t, "waits", func(s *notices.Spec) { s.Event, s.Failures = notices.Suggestion, 0 })
	e := p.endpoint(t, nil)
	first := p.suggests(e, now)
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], first))
	require.Equal(t, []string{"opened"}, p.NoticeKinds(t))
	require.Equal(t, first.Suggestion.ID.String(), storetest.Query[string](t, p.Bundle, "SELECT detail->>'suggestionId' FROM notice_episodes"))
	require.Equal(t, "its answers never change", storetest.Query[string](t, p.Bundle, "SELECT detail->>'reason' FROM notice_episodes"))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, p.NoticeKinds(t), "it waits")

	now = p.At(now.Add(time.Minute))
	newer := p.suggests(e, now)
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], newer))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, p.NoticeKinds(t), "a newer one takes its place: one still waits")
	_, err := p.reviews.Decide(t.Context(), storetest.Tenant, newer.Suggestion.ID, false)
	require.NoError(t, err)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, p.NoticeKinds(t))

	now = p.At(now.Add(endpoints.HoldLife + time.Minute)) // Until then the rejection stands.
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], p.suggests(e, now)))
	require.Equal(t, []string{"opened", "recovered", "opened"}, p.NoticeKinds(t))
	p.At(now.Add(time.Hour))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered", "opened", "recovered"}, p.NoticeKinds(t), "it is not asked for any more")
}

// TestUnwrittenSuggestionIsNotNotified loses the claim.
func TestUnwrittenSuggestionIsNotNotified(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	now := p.At(storetest.Noon())
	p.PutRule(t, "waits", func(s *notices.Spec) { s.Event, s.Failures = notices.Suggestion, 0 })
	e := p.endpoint(t, nil)
	ticket := p.claim(t, p.one)[0]
	p.At(now.Add(analysisLock + time.Second))
	require.ErrorIs(t, p.one.Complete(t.Context(), ticket, p.suggests(e, now)), planner.ErrClaimLost)
	require.Empty(t, p.NoticeKinds(t))
}

// TestPlannerPauseIsNotifiedAndHintsAreNot lets the planner change an endpoint in both ways.
func TestPlannerPauseIsNotifiedAndHintsAreNot(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	now := p.At(storetest.Noon())
	keeper := p.PutRule(t, "paused", func(s *notices.Spec) { s.Event, s.Failures = notices.Paused, 0 })
	e := p.endpoint(t, nil)
	hint := p.closing(e)
	hint.NextAt, hint.NotBefore = now, now
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], hint))
	require.Empty(t, p.NoticeKinds(t), "it runs, at another pace")

	now = p.At(now.Add(time.Minute))
	pause := p.closing(e)
	pause.NextAt, pause.NotBefore = now, now
	pause.Apply = func(e *endpoints.Endpoint, _ []endpoints.Hold, now time.Time) (*endpoints.Recorded, error) {
		return e.ApplyAdvice(now, auditlog.Actor{TenantID: e.TenantID, Name: "planner:test"}, "planner:test",
			endpoints.Advice{Pause: 10 * time.Minute, PauseReason: "its host is away"})
	}
	require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], pause))
	require.Equal(t, []string{"opened"}, p.NoticeKinds(t))
	require.Equal(t, "planner:test: its host is away", storetest.Query[string](t, p.Bundle, "SELECT detail->>'reason' FROM notice_episodes"))
	p.At(now.Add(9 * time.Minute))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, p.NoticeKinds(t))
	p.At(now.Add(10 * time.Minute))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, p.NoticeKinds(t), "it ends by itself")
}

// TestUndecidedSuggestionStaysExpired has a newer suggestion take the place of one in its time, and
// of one that was over.
func TestUndecidedSuggestionStaysExpired(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	now := p.At(storetest.Noon())
	e := p.endpoint(t, nil)
	var ids []planner.SuggestionID
	suggest := func() {
		c := p.suggests(e, now)
		require.NoError(t, p.one.Complete(t.Context(), p.claim(t, p.one)[0], c))
		ids = append(ids, c.Suggestion.ID)
	}
	suggest()
	now = p.At(now.Add(time.Minute))
	suggest()
	now = p.At(now.Add(2 * time.Hour))
	suggest()
	in := func(state planner.SuggestionState) (found []planner.SuggestionID) {
		list, err := p.reviews.Suggestions(t.Context(), planner.SuggestionFilter{TenantID: storetest.Tenant.TenantID, State: state, Limit: 10})
		require.NoError(t, err)
		for _, s := range list {
			require.True(t, state == "" || s.State == state, "%s among the %s", s.State, state)
			require.Equal(t, s.State == planner.Replaced, !s.DecidedAt.IsZero())
			found = append(found, s.ID)
		}
		return found
	}

	require.Equal(t, ids[2:], in(planner.Pending))
	require.Equal(t, ids[1:2], in(planner.Expired))
	require.Equal(t, ids[:1], in(planner.Replaced))
	require.Empty(t, in(planner.Approved))
	require.Len(t, in(""), 3)
}
