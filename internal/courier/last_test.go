package courier_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	keystore "rubato/internal/store/keys"
	"rubato/internal/waittest"
)

// TestAnAlertIsClosedWhereItWasOpened deletes the rule of an open alert, or changes its receiver:
// the old receiver gets the end.
func TestAnAlertIsClosedWhereItWasOpened(t *testing.T) {
	t.Parallel()
	type act = func(*testing.T, *bundle, *receiver)
	for name, c := range map[string]struct {
		act  act
		want string // of the summary
		news int    // notices for the other receiver
	}{
		"Deleted": {act: func(t *testing.T, b *bundle, _ *receiver) {
			t.Helper()
			require.NoError(t, b.notices.DeleteRule(t.Context(), b.by, "all", 0))
		}, want: "the notice rule was deleted"},
		"Moved": {act: func(t *testing.T, b *bundle, other *receiver) {
			t.Helper()
			_, _, err := b.notices.PutRule(t.Context(), b.by, "all", notices.Spec{
				Event: notices.Failures, Failures: 3, Recovery: true, Enabled: true, Channel: notices.Channel{Kind: notices.Slack, URL: other.URL},
			}, endpoints.Condition{})
			require.NoError(t, err)
		}, want: "the notice rule was changed", news: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			manager, other := receive(t), receive(t)
			_, _, err := b.secrets.Put(t.Context(), b.by, secrets.Request{Name: "token", Value: secrets.NewText("t0ken")})
			require.NoError(t, err)
			b.happen(t, notices.Channel{Kind: notices.Alertmanager, URL: manager.URL, TokenSecret: "token"})
			b.deliver(t, b.notices)
			b.awaitState(t, "opened", "delivered")

			c.act(t, b, other)
			b.awaitState(t, "withdrawn", "delivered")

			got := manager.all()
			require.Len(t, got, 2)
			require.Equal(t, "Bearer t0ken", got[1].header.Get("Authorization"))
			var alerts [2][]struct {
				Labels, Annotations map[string]string
				EndsAt              time.Time
			}
			for i := range got {
				require.NoError(t, json.Unmarshal(got[i].body, &alerts[i]))
			}
			require.Equal(t, alerts[0][0].Labels, alerts[1][0].Labels, "an alert is known by its labels")
			require.False(t, alerts[1][0].EndsAt.After(time.Now()), "it is over")
			require.Equal(t, `"Shop <!channel> & co" is watched no longer after 1m: `+c.want, withoutSeconds(alerts[1][0].Annotations["summary"]))
			require.Contains(t, alerts[1][0].Annotations["description"], "whether it recovered is not known")
			waittest.Until(t, func() bool { return len(other.all()) == c.news })
		})
	}
}

var seconds = regexp.MustCompile(`1m[0-9]*s?:`)

// withoutSeconds removes the duration from a summary, because it depends on the machine.
func withoutSeconds(summary string) string { return seconds.ReplaceAllString(summary, "1m:") }

// TestWebhookReceivesCauseOfWithdrawal requires the cause in the last notice of a webhook.
func TestWebhookReceivesCauseOfWithdrawal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.signing.Create(t.Context(), b.by, signing.Request{})
	require.NoError(t, err)
	hooks := receive(t)
	b.happen(t, notices.Channel{Kind: notices.Webhook, URL: hooks.URL})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")
	require.NoError(t, b.notices.DeleteRule(t.Context(), b.by, "all", 0))
	b.awaitState(t, "withdrawn", "delivered")

	got := hooks.all()
	require.Len(t, got, 2)
	var first, last struct {
		Type string
		Data struct{ EpisodeID, ClosedAt, Cause string }
	}
	require.NoError(t, json.Unmarshal(got[0].body, &first))
	require.NoError(t, json.Unmarshal(got[1].body, &last))
	require.Equal(t, "notice.withdrawn", last.Type)
	require.Equal(t, "rule_deleted", last.Data.Cause)
	require.NotEmpty(t, last.Data.ClosedAt)
	require.Equal(t, first.Data.EpisodeID, last.Data.EpisodeID)
	require.Empty(t, first.Data.Cause)
}

// TestLastNoticeNamesMissingSecret deletes the secret of a rule by force, and restores it.
func TestLastNoticeNamesMissingSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	put := func() {
		_, _, err := b.secrets.Put(t.Context(), b.by, secrets.Request{Name: "token", Value: secrets.NewText("t0ken")})
		require.NoError(t, err)
	}
	put()
	manager := receive(t, http.StatusOK)
	b.happen(t, notices.Channel{Kind: notices.Alertmanager, URL: manager.URL, TokenSecret: "token"})
	b.exec(t, "UPDATE notices SET state = 'delivered', ended_at = now(), claim_token = 2, attempts = 1")
	require.NoError(t, b.notices.DeleteRule(t.Context(), b.by, "all", 0))
	require.NoError(t, b.secrets.Delete(t.Context(), b.by, "token", true))
	b.exec(t, "UPDATE notices SET attempts = $1 WHERE state = 'waiting'", notices.MaxAttempts-1)
	b.deliver(t, b.notices)
	b.awaitState(t, "withdrawn", "dead")
	list, err := b.notices.ListNotices(t.Context(), notices.Filter{TenantID: b.by.TenantID, State: notices.Dead, Limit: 10})
	require.NoError(t, err)
	require.Contains(t, list[0].Error, `secret "token": there is no such secret`)
	require.Equal(t, notices.RuleDeleted, list[0].Cause)

	put()
	_, err = b.notices.RetryNotice(t.Context(), b.by, list[0].ID)
	require.NoError(t, err)
	b.awaitState(t, "withdrawn", "delivered")
	require.Len(t, manager.all(), 1)
}

// TestOpeningWaitsForEarlierEndOfAlert: a new alert waits until Alertmanager has accepted the end
// of the earlier one.
func TestOpeningWaitsForEarlierEndOfAlert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	manager := receive(t, http.StatusNoContent, http.StatusInternalServerError)
	b.happen(t, notices.Channel{Kind: notices.Alertmanager, URL: manager.URL})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")
	b.exec(t, "UPDATE notice_episodes SET closed_at = now()")
	b.write(t, "recovered")
	b.await(t, "SELECT attempts = 1 FROM notices WHERE kind = 'recovered'")

	b.exec(t, "UPDATE notices SET due_at = now() + interval '1 hour' WHERE kind = 'recovered'")
	b.exec(t, `INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders)
		SELECT '33333333-0000-0000-0000-000000000000', tenant_id, rule_id, rule, endpoint_id, event, now(), detail, remind_at, 0 FROM notice_episodes`)
	b.exec(t, `INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
		VALUES (audit_log_id(now()), $1, '33333333-0000-0000-0000-000000000000', 'opened', 0, now(), now(), 'waiting', 0, 0, false, '')`, keystore.DefaultTenant)
	b.await(t, "SELECT count(*) = 1 FROM notices WHERE kind = 'opened' AND claim_token > 1 AND state = 'waiting'")
	require.Len(t, manager.all(), 2, "it was claimed, and not sent")

	b.exec(t, "UPDATE notices SET due_at = now() WHERE kind = 'recovered'")
	b.awaitState(t, "recovered", "delivered")
	b.exec(t, "UPDATE notices SET due_at = now() WHERE state = 'waiting'")
	b.await(t, "SELECT count(*) = 3 FROM notices WHERE state = 'delivered'")
	var last []struct{ EndsAt time.Time }
	got := manager.all()
	require.NoError(t, json.Unmarshal(got[len(got)-1].body, &last))
	require.True(t, last[0].EndsAt.After(time.Now()), "what goes on is open")
}
