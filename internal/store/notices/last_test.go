package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	keystore "rubato/internal/store/keys"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/storetest"
)

func alertmanager(host string) notices.Channel {
	return notices.Channel{Kind: notices.Alertmanager, URL: "http://" + host + ".example"}
}

// failing is a rule of the first failure of any endpoint, to an Alertmanager.
func failing(s *notices.Spec) { s.Failures, s.Channel = 1, alertmanager("old") }

// changed is failing with another edit after it.
func changed(edit func(*notices.Spec)) func(*notices.Spec) {
	return func(s *notices.Spec) { failing(s); edit(s) }
}

// claimOne claims the one notice that is due.
func claimOne(t *testing.T, keeper *noticestore.Store) *notices.Delivery {
	t.Helper()
	claimed, err := keeper.Claim(t.Context(), room(10), notices.Lock)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	return claimed[0]
}

// deliverOne claims it and has it delivered.
func deliverOne(t *testing.T, keeper *noticestore.Store) *notices.Delivery {
	t.Helper()
	p := claimOne(t, keeper)
	ended, err := keeper.End(t.Context(), p, notices.Delivered, notices.Result{StatusCode: 200})
	require.NoError(t, err)
	require.True(t, ended)
	return p
}

// opened opens an episode of the rule failing. Its opening was delivered.
func (b *bundle) opened(t *testing.T, edit func(*notices.Spec)) (*noticestore.Store, endpoints.ID) {
	t.Helper()
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", edit)
	id := b.Register(t, nil).ID
	b.failOne(t, id)
	require.Equal(t, notices.Opened, deliverOne(t, keeper).Kind)
	return keeper, id
}

func deleteRule(t *testing.T, _ *bundle, keeper *noticestore.Store, _ endpoints.ID) {
	t.Helper()
	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))
}

func archive(t *testing.T, b *bundle, keeper *noticestore.Store, id endpoints.ID) {
	t.Helper()
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, id, 0))
	require.NoError(t, keeper.Watch(t.Context()))
}

// TestAlertIsClosedThroughItsChannel ends an episode in every way that is no recovery.
func TestAlertIsClosedThroughItsChannel(t *testing.T) {
	t.Parallel()
	put := func(edit func(*notices.Spec)) func(*testing.T, *bundle, *noticestore.Store, endpoints.ID) {
		return func(t *testing.T, b *bundle, _ *noticestore.Store, _ endpoints.ID) {
			t.Helper()
			b.PutRule(t, "failing", changed(edit))
		}
	}
	for name, c := range map[string]struct {
		act  func(*testing.T, *bundle, *noticestore.Store, endpoints.ID)
		want notices.Cause
	}{
		"Deleted":        {deleteRule, notices.RuleDeleted},
		"Disabled":       {put(func(s *notices.Spec) { s.Enabled = false }), notices.RuleChanged},
		"OtherEvent":     {put(func(s *notices.Spec) { s.Event, s.Failures = notices.Lost, 0 }), notices.RuleChanged},
		"OtherThreshold": {put(func(s *notices.Spec) { s.Failures = 9 }), notices.RuleChanged},
		"OtherEndpoints": {put(func(s *notices.Spec) { s.Scope.Labels = map[string]string{"team": "bank"} }), notices.RuleChanged},
		"AllAtOnce": {put(func(s *notices.Spec) {
			s.Enabled, s.Channel = false, notices.Channel{Kind: notices.Slack, URL: "http://chat.example"}
		}), notices.RuleChanged},
		"DisabledMeanwhile": {func(t *testing.T, b *bundle, _ *noticestore.Store, _ endpoints.ID) {
			t.Helper()
			// A finish reads this state if the change missed its episode.
			b.Exec(t, "UPDATE notice_rules SET enabled = false")
		}, notices.RuleChanged},
		"Archived": {archive, notices.EndpointArchived},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			keeper, id := b.opened(t, failing)

			c.act(t, b, keeper, id)

			require.NoError(t, keeper.Watch(t.Context()))
			require.Equal(t, []string{"opened", "withdrawn"}, b.NoticeKinds(t))
			last := claimOne(t, keeper)
			require.Equal(t, notices.Withdrawn, last.Kind)
			require.Equal(t, c.want, last.Cause)
			require.Equal(t, alertmanager("old"), last.Channel)
			require.False(t, last.ClosedAt.IsZero())
			verdict, _ := last.Judge()
			require.Equal(t, notices.Send, verdict)
		})
	}
}

// TestOngoingEpisodeFollowsChangedRule lets a rule go to another receiver while an endpoint fails.
func TestOngoingEpisodeFollowsChangedRule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper, id := b.opened(t, failing)
	since := storetest.Query[time.Time](t, b.Bundle, "SELECT opened_at FROM notice_episodes")
	now := b.At(storetest.Noon().Add(time.Hour))

	b.PutRule(t, "failing", changed(func(s *notices.Spec) { s.Channel = alertmanager("new") }))

	last := deliverOne(t, keeper)
	require.Equal(t, notices.Withdrawn, last.Kind)
	require.Equal(t, alertmanager("old"), last.Channel)
	b.At(now.Add(6 * time.Second))
	first := deliverOne(t, keeper)
	require.Equal(t, notices.Opened, first.Kind)
	require.Equal(t, alertmanager("new"), first.Channel)
	require.True(t, since.Equal(first.OpenedAt), "it fails since then, whoever is told")
	require.NotEqual(t, last.EpisodeID, first.EpisodeID)
	b.passOne(t, id)
	end := deliverOne(t, keeper)
	require.Equal(t, notices.Recovered, end.Kind)
	require.Equal(t, alertmanager("new"), end.Channel)
}

// TestChannelWithoutStateGetsNoLastNotice has receivers without state, one that wants no ends, and
// one that got no opening.
func TestChannelWithoutStateGetsNoLastNotice(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*notices.Spec){
		"Slack": func(s *notices.Spec) { s.Channel = notices.Channel{Kind: notices.Slack, URL: "http://chat.example"} },
		"Email": func(s *notices.Spec) { s.Channel = notices.Channel{Kind: notices.Email, To: []string{"a@b.example"}} },
		"NoEnds": func(s *notices.Spec) {
			s.Recovery, s.Channel = false, notices.Channel{Kind: notices.Webhook, URL: "http://hooks.example"}
		},
	} {
		for how, end := range map[string]func(*testing.T, *bundle, *noticestore.Store, endpoints.ID){"Deleted": deleteRule, "Archived": archive} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				keeper, id := b.opened(t, changed(edit))
				b.PutRule(t, "failing", changed(func(s *notices.Spec) { edit(s); s.Channel.URL += "/other" }))
				require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"), "it goes on")
				end(t, b, keeper, id)
				require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"))
				require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
			})
		}
	}
	t.Run("Untold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.At(storetest.Noon())
		keeper := b.PutRule(t, "failing", failing)
		b.failOne(t, b.Register(t, nil).ID)
		require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))
		require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
		require.Equal(t, "muted", storetest.Query[string](t, b.Bundle, "SELECT state FROM notices"))
	})
	t.Run("SameReceiver", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Put(t, "token", storetest.Canary)
		b.opened(t, failing)
		b.PutRule(t, "failing", changed(func(s *notices.Spec) { s.Channel.TokenSecret, s.Remind = "token", time.Hour }))
		require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"))
		require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	})
}

// TestALastNoticeDoesNotOvertakeTheFirst deletes the rule while a courier sends that the episode
// began.
func TestALastNoticeDoesNotOvertakeTheFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", failing)
	b.failOne(t, b.Register(t, nil).ID)
	now := b.At(storetest.Noon().Add(time.Hour))
	sending := claimOne(t, keeper)

	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))

	none, err := keeper.Claim(t.Context(), room(10), notices.Lock)
	require.NoError(t, err)
	require.Empty(t, none)
	ended, err := keeper.End(t.Context(), sending, notices.Delivered, notices.Result{StatusCode: 200})
	require.NoError(t, err)
	require.False(t, ended, "it is muted, though it may have arrived")
	b.At(now.Add(notices.Lock + time.Second))
	last := claimOne(t, keeper)
	require.Equal(t, notices.Withdrawn, last.Kind)
	verdict, _ := last.Judge()
	require.Equal(t, notices.Send, verdict)
}

// TestLastNoticeEndsWithItsSender deletes the rule of a notice that is to be sent again much later.
func TestLastNoticeEndsWithItsSender(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", failing)
	b.failOne(t, b.Register(t, nil).ID)
	now := b.At(storetest.Noon().Add(time.Hour))
	_, err := keeper.Postpone(t.Context(), claimOne(t, keeper), time.Hour, false, notices.Result{Error: "no answer"})
	require.NoError(t, err)
	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))
	b.At(now.Add(notices.Lock + time.Second))
	require.Equal(t, notices.Withdrawn, claimOne(t, keeper).Kind, "what is away may have taken it all the same")
}

// TestAnEndThatWaitsGoesWhereItsRuleWent lets an episode recover while its receiver is away, before
// the rule goes.
func TestAnEndThatWaitsGoesWhereItsRuleWent(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*testing.T, *bundle, *noticestore.Store){
		"Deleted": func(t *testing.T, _ *bundle, keeper *noticestore.Store) {
			t.Helper()
			require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))
		},
		"Moved": func(t *testing.T, b *bundle, _ *noticestore.Store) {
			t.Helper()
			b.PutRule(t, "failing", changed(func(s *notices.Spec) { s.Channel = alertmanager("new") }))
		},
	} {
		for _, state := range []notices.State{notices.Waiting, notices.Dead} {
			t.Run(name+"/"+string(state), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				keeper, id := b.opened(t, failing)
				b.passOne(t, id)
				if state == notices.Dead {
					_, err := keeper.End(t.Context(), claimOne(t, keeper), notices.Dead, notices.Result{Error: "away"})
					require.NoError(t, err)
				}
				act(t, b, keeper)
				if state == notices.Dead {
					_, err := keeper.RetryNotice(t.Context(), storetest.Tenant, storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM notices WHERE kind = 'recovered'"))
					require.NoError(t, err)
				}
				end := claimOne(t, keeper)
				require.Equal(t, notices.Recovered, end.Kind)
				require.Equal(t, alertmanager("old"), end.Channel)
				verdict, _ := end.Judge()
				require.Equal(t, notices.Send, verdict)
			})
		}
	}
}

// TestASecretThatALastNoticeNeedsIsNotDeletedUnlessByForce deletes the rule, and then at once the
// secret that it referred to.
func TestASecretThatALastNoticeNeedsIsNotDeletedUnlessByForce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "token", storetest.Canary)
	b.Put(t, "url", storetest.Canary)
	keeper, _ := b.opened(t, changed(func(s *notices.Spec) {
		s.Channel = notices.Channel{Kind: notices.Alertmanager, URLSecret: "url", TokenSecret: "token"}
	}))
	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))
	service := secrets.NewService(keystore.NewSecrets(b.DB), nil)
	for _, name := range []string{"token", "url"} {
		err := service.Delete(t.Context(), storetest.Tenant, name, false)
		require.Equal(t, errs.Conflict, errs.CodeOf(err))
		require.ErrorContains(t, err, "1 last notice refers to the secret, such as what rubato notices list --state waiting shows")
	}
	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, "url", true))
	deliverOne(t, keeper)
	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, "token", false), "nothing needs it any more")
}

// TestABeginWaitsForTheEndOfTheSameAlert lets an endpoint fail again before its receiver has got
// the recovery.
func TestABeginWaitsForTheEndOfTheSameAlert(t *testing.T) {
	t.Parallel()
	t.Run("Alertmanager", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		keeper, now := b.failsAgain(t, failing)
		first := b.claimBegin(t, keeper, notices.Queue)
		_, err := keeper.Postpone(t.Context(), first, time.Hour-time.Second, false, notices.Result{})
		require.NoError(t, err)
		b.At(now.Add(time.Hour - time.Second))
		b.claimBegin(t, keeper, notices.Queue)
		b.At(now.Add(time.Hour))
		require.Equal(t, notices.Recovered, deliverOne(t, keeper).Kind)
		b.At(now.Add(time.Hour + notices.Lock))
		b.claimBegin(t, keeper, notices.Send)
	})
	t.Run("Chat", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		keeper, _ := b.failsAgain(t, changed(func(s *notices.Spec) { s.Channel = notices.Channel{Kind: notices.Slack, URL: "http://chat.example"} }))
		b.claimBegin(t, keeper, notices.Send)
	})
	t.Run("OtherReceiver", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		keeper, now := b.failsAgain(t, failing)
		b.PutRule(t, "failing", changed(func(s *notices.Spec) { s.Channel = alertmanager("new") }))
		b.At(now.Add(6 * time.Second))
		require.Equal(t, alertmanager("new"), b.claimBegin(t, keeper, notices.Send).Channel, "the new receiver does not wait for the old one")
	})
}

// TestAnEndThatIsSentAgainDoesNotCloseTheNextAlert has a receiver that was down at the end of an
// episode, until the notice became a dead letter.
func TestAnEndThatIsSentAgainDoesNotCloseTheNextAlert(t *testing.T) {
	t.Parallel()
	for kind, want := range map[notices.ChannelKind]notices.Verdict{notices.Alertmanager: notices.Mute, notices.Webhook: notices.Send} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			keeper, id := b.opened(t, changed(func(s *notices.Spec) { s.Channel.Kind = kind }))
			b.passOne(t, id)
			_, err := keeper.End(t.Context(), claimOne(t, keeper), notices.Dead, notices.Result{Error: "away"})
			require.NoError(t, err)
			b.failOne(t, id)
			next := claimOne(t, keeper)
			require.Equal(t, notices.Opened, next.Kind)
			next.Attempts++
			ended, err := keeper.End(t.Context(), next, notices.Delivered, notices.Result{StatusCode: 200})
			require.NoError(t, err)
			require.True(t, ended)

			_, err = keeper.RetryNotice(t.Context(), storetest.Tenant, storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM notices WHERE kind = 'recovered'"))
			require.NoError(t, err)
			verdict, _ := claimOne(t, keeper).Judge()
			require.Equal(t, want, verdict)
		})
	}
}

// failsAgain has two episodes: one with an end to be retried in an hour, and a later one that is
// open. It returns the time.
func (b *bundle) failsAgain(t *testing.T, edit func(*notices.Spec)) (*noticestore.Store, time.Time) {
	t.Helper()
	keeper, id := b.opened(t, edit)
	b.passOne(t, id)
	now := b.At(storetest.Noon().Add(time.Hour))
	_, err := keeper.Postpone(t.Context(), claimOne(t, keeper), time.Hour, false, notices.Result{Error: "no answer"})
	require.NoError(t, err)
	b.failOne(t, id)
	require.Equal(t, []string{"opened", "recovered", "opened"}, b.NoticeKinds(t))
	return keeper, now
}

// claimBegin claims the one due notice, an opening, and requires its verdict.
func (b *bundle) claimBegin(t *testing.T, keeper *noticestore.Store, want notices.Verdict) *notices.Delivery {
	t.Helper()
	p := claimOne(t, keeper)
	require.Equal(t, notices.Opened, p.Kind)
	verdict, _ := p.Judge()
	require.Equal(t, want, verdict)
	return p
}
