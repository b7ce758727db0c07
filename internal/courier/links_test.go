package courier_test

import (
	"encoding/json"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/courier"
	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/signing"
)

const (
	console     = "https://rubato.example.com"
	linkOfShop  = console + "/console/endpoints/ep_11111111-0000-0000-0000-000000000000"
	linkOfRun   = console + "/console/runs/run_33333333-0000-0000-0000-000000000000"
	targetOfAll = "Target: GET t.example:8443"
	runbook     = "https://wiki.example.com/shop?a=1#b"
)

// linked is a bundle of an installation with a public URL. Its open episode has a channel and names
// a run.
func linked(t *testing.T, edit func(*bundle) notices.Channel) *bundle {
	t.Helper()
	b := setup(t)
	b.public = console
	b.happen(t, edit(b))
	b.exec(t, `UPDATE notice_episodes SET detail = detail || '{"runId": "run_33333333-0000-0000-0000-000000000000"}'`)
	b.exec(t, "UPDATE endpoints SET spec = spec || jsonb_build_object('url', 'http://user:hunter2@t.example:8443/secret-path?q=1'::text, 'runbookUrl', $1::text)", runbook)
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")
	return b
}

// TestNoticesLinkToTheConsole checks the links in every channel. Notices show only the host of the
// endpoint's URL.
func TestNoticesLinkToTheConsole(t *testing.T) {
	t.Parallel()
	t.Run("Slack", func(t *testing.T) {
		t.Parallel()
		chat := receive(t)
		linked(t, func(*bundle) notices.Channel { return notices.Channel{Kind: notices.Slack, URL: chat.URL} })
		var message struct{ Text string }
		require.NoError(t, json.Unmarshal(chat.all()[0].body, &message))
		for _, line := range []string{"Console: " + linkOfShop, "Run in the console: " + linkOfRun, targetOfAll, "Runbook: " + runbook} {
			require.Contains(t, message.Text, "\n"+line)
		}
		require.NotContains(t, message.Text, "hunter2")
		require.NotContains(t, message.Text, "secret-path")
	})
	t.Run("Email", func(t *testing.T) {
		t.Parallel()
		m := serveMail(t, true)
		linked(t, func(b *bundle) notices.Channel {
			b.mail = courier.Mail{Address: m.listener.Addr().String(), From: "rubato@example.com", Security: courier.Clear}
			return notices.Channel{Kind: notices.Email, To: []string{"a@example.com"}}
		})
		letter, err := mail.ReadMessage(strings.NewReader(m.text))
		require.NoError(t, err)
		body, err := io.ReadAll(quotedprintable.NewReader(letter.Body))
		require.NoError(t, err)
		require.Contains(t, string(body), "Console: "+linkOfShop+"\r\n")
		require.Contains(t, string(body), targetOfAll+"\r\n")
		require.Contains(t, string(body), "Runbook: "+runbook+"\r\n")
	})
	t.Run("Webhook", func(t *testing.T) {
		t.Parallel()
		hooks := receive(t)
		linked(t, func(b *bundle) notices.Channel {
			_, _, err := b.signing.Create(t.Context(), b.by, signing.Request{})
			require.NoError(t, err)
			return notices.Channel{Kind: notices.Webhook, URL: hooks.URL}
		})
		var told struct {
			Data struct{ Method, Host, Link, RunLink, RunbookURL string }
		}
		require.NoError(t, json.Unmarshal(hooks.all()[0].body, &told))
		require.Equal(t, struct{ Method, Host, Link, RunLink, RunbookURL string }{"GET", "t.example:8443", linkOfShop, linkOfRun, runbook}, told.Data)
	})
	t.Run("Test", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.public = console
		chat := receive(t)
		r := notices.Rule{Name: "x", TenantID: b.by.TenantID, Spec: notices.Spec{Channel: notices.Channel{Kind: notices.Slack, URL: chat.URL}}}
		_, err := b.channels().Test(t.Context(), b.by, r)
		require.NoError(t, err)
		require.Contains(t, string(chat.all()[0].body), "Console: "+console+"/console/notices")
	})
}

// TestAnAlertCanBeRouted: an alert has the severity of its rule and labels of its endpoint. They
// stay the same until its end, because Alertmanager identifies an alert by its labels and would
// keep the first one otherwise.
func TestAnAlertCanBeRouted(t *testing.T) {
	t.Parallel()
	manager := receive(t)
	b := linked(t, func(*bundle) notices.Channel {
		return notices.Channel{Kind: notices.Alertmanager, URL: manager.URL, Severity: "critical", AlertLabels: []string{"app.kubernetes.io/name", "team", "absent"}}
	})
	b.exec(t, `UPDATE notice_episodes SET labels = '{"team": "shop", "app.kubernetes.io/name": "cart", "zone": "a"}'`)
	b.exec(t, `UPDATE endpoints SET spec = spec || '{"labels": {"team": "other"}}'`)
	b.exec(t, "UPDATE notice_episodes SET closed_at = now()")
	b.write(t, "recovered")
	b.awaitState(t, "recovered", "delivered")

	var alerts []struct {
		Labels, Annotations map[string]string
		GeneratorURL        string
		EndsAt              time.Time
	}
	got := manager.all()
	require.NoError(t, json.Unmarshal(got[len(got)-1].body, &alerts))
	require.Equal(t, map[string]string{
		"alertname": "RubatoFailures", "rule": "all", "endpoint_id": "ep_11111111-0000-0000-0000-000000000000",
		"severity": "critical", "team": "shop", "app_kubernetes_io_name": "cart",
	}, alerts[0].Labels)
	require.Equal(t, linkOfShop, alerts[0].GeneratorURL)
	require.Equal(t, linkOfRun, alerts[0].Annotations["run_url"])
	require.Equal(t, runbook, alerts[0].Annotations["runbook_url"])
	require.False(t, alerts[0].EndsAt.After(time.Now()))
}

// TestAnAlertWithOtherLabelsIsAnotherOne: a change of the severity ends the open alert and opens
// another one.
func TestAnAlertWithOtherLabelsIsAnotherOne(t *testing.T) {
	t.Parallel()
	manager := receive(t)
	channel := notices.Channel{Kind: notices.Alertmanager, URL: manager.URL, Severity: "warning"}
	b := linked(t, func(*bundle) notices.Channel { return channel })
	channel.Severity = "critical"
	_, _, err := b.notices.PutRule(t.Context(), b.by, "all", notices.Spec{
		Event: notices.Failures, Failures: 3, Recovery: true, Enabled: true, Channel: channel,
	}, endpoints.Condition{})
	require.NoError(t, err)
	b.await(t, "SELECT count(*) = 3 FROM notices WHERE state = 'delivered'")

	over := map[string]bool{}
	for _, got := range manager.all() {
		var alerts []struct {
			Labels map[string]string
			EndsAt time.Time
		}
		require.NoError(t, json.Unmarshal(got.body, &alerts))
		over[alerts[0].Labels["severity"]] = !alerts[0].EndsAt.After(time.Now())
	}
	require.Equal(t, map[string]bool{"warning": true, "critical": false}, over)
}
