package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// fill writes into a field of a form without live preview.
func (b *tab) fill(field, value string) {
	b.t.Helper()
	b.write("#dialog [name="+field+"]", value)
}

// confirms waits for the dialog and submits its form.
func (b *tab) confirms(says string) {
	b.t.Helper()
	b.await("document.querySelector('#dialog[open]')")
	b.says(says)
	b.accessible()
	b.click("#dialog [type=submit]")
}

// noticed writes an episode of an endpoint with its notice. The episode is closed, because no
// notice goes out for an open episode with a disabled rule.
func (w *world) noticed(t *testing.T, key, state, fault string) {
	t.Helper()
	require.Equal(t, int64(1), w.sql(t, `
		WITH episode AS (
			INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, closed_at, detail, remind_at, reminders)
			SELECT gen_random_uuid(), e.tenant_id, r.id, r.name, e.id, 'failures', now(), now(), '{"failures": 3}', 'infinity', 0
			FROM endpoints e, notice_rules r WHERE e.key = $1
			RETURNING id, tenant_id)
		INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, ended_at, error)
		SELECT gen_random_uuid(), tenant_id, id, 'opened', 0, now(), now(), $2, 14, 1, false, now(), $3 FROM episode`, key, state, fault))
}

// A notice rule is created, tested, edited and deleted; a dead letter of it is sent again.
func TestARuleIsMadeTestedEditedAndDeleted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	heard := make(chan struct{}, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard <- struct{}{} }))
	t.Cleanup(hook.Close)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	b.visit("/console/notices")
	b.click("[hx-get$='/rules/new']")
	b.await("document.querySelector('#dialog[open] #rule-form')")
	b.fill("name", "Not a name")
	b.fill("kind", "email")
	b.await("document.querySelector('#dialog .by-url').offsetParent === null && document.querySelector('#dialog .by-email').offsetParent !== null")
	b.fill("kind", "slack")
	b.fill("url", hook.URL+"/hook")
	b.click("#dialog [type=submit]")
	b.says("must be up to 100 lower-case letters")
	b.accessible()
	b.forget() // The browser logs the status of the refusal.
	b.fill("name", "shop-failures")
	b.click("#dialog [type=submit]")
	b.await("document.querySelector('[aria-label=\"Test shop-failures\"]')")
	b.says("3 failures in a row")
	b.click("[aria-label='Test shop-failures']")
	b.says("Delivered in")
	<-heard

	b.click("[aria-label='Edit shop-failures']")
	b.await("document.querySelector('#dialog[open] #rule-form [name=name]').value === 'shop-failures'")
	b.fill("failures", "5")
	b.fill("remind", "2h")
	b.fill("labels", "team=shop")
	b.click("#dialog [name=enabled]")
	b.shoot("rule")
	b.confirms("Edit rule shop-failures")
	b.says("5 failures in a row")
	b.says("disabled")
	var rule client.NoticeRule
	w.api(t, http.MethodGet, "/v1/notice-rules/shop-failures", nil, &rule)
	require.False(t, rule.Enabled)
	require.Equal(t, int64(7_200_000), rule.RemindMs)
	require.Equal(t, map[string]string{"team": "shop"}, *rule.Labels)
	require.Equal(t, hook.URL+"/hook", *rule.Channel.URL)

	b.click("[aria-label='Edit shop-failures']")
	b.await("document.querySelector('#dialog .by-alertmanager')?.offsetParent === null")
	b.fill("kind", "alertmanager")
	b.fill("severity", "critical")
	b.fill("alertLabels", "team, zone")
	b.shoot("rule-alertmanager")
	b.confirms("Edit rule shop-failures")
	b.says("alertmanager " + hook.URL)
	w.api(t, http.MethodGet, "/v1/notice-rules/shop-failures", nil, &rule)
	require.Equal(t, "critical", *rule.Channel.Severity)
	require.Equal(t, []string{"team", "zone"}, *rule.Channel.AlertLabels)
	b.click("[aria-label='Edit shop-failures']")
	b.await("document.querySelector('#dialog[open] [name=severity]')?.value === 'critical'")
	b.await("document.querySelector('#dialog[open] [name=alertLabels]')?.value === 'team, zone'")
	b.fill("kind", "slack")
	b.confirms("Edit rule shop-failures")
	b.says("slack " + hook.URL)

	// The rule may have done the same, because this endpoint fails.
	w.noticed(t, "demo-flaky", "delivered", "")
	w.noticed(t, "demo-orders", "dead", "<b>away</b>")
	b.visit("/console/notices")
	b.says("<b>away</b>")
	b.says("failures in a row: began")
	b.accessible()
	b.shoot("notices-dead")
	b.click("[aria-label^='Retry ntc_']")
	b.await("!document.querySelector('[aria-label^=\"Retry ntc_\"]')")
	<-heard
	b.click("[aria-label='Delete shop-failures']")
	b.confirms("The rule sends no more notices")
	b.says("No notice rules yet")
	b.clean()
}

// A maintenance window is stored with its effect in words, edited, ended before its time, and
// deleted.
func TestAMaintenanceWindowIsMadeEditedEndedAndDeleted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	b := open(chrome, t, w, phone)
	b.visit(w.link)
	b.visit("/console/notices")
	b.says("No maintenance windows.")
	b.click("[hx-get$='/windows/new']")
	b.await("document.querySelector('#dialog[open] #effect').innerText.includes('No notices for any endpoint for 1 h, from now')")
	b.fill("name", "upgrade")
	b.fill("labels", "team=shop")
	b.fill("reason", "<i>the database</i> moves")
	b.fill("endsAt", "2020-01-01T00:00")
	b.await("document.querySelector('#dialog #effect').innerText.includes('The end is before the start')")
	b.click("#dialog [type=submit]")
	b.says("must lie after startsAt")
	b.forget() // The browser logs the status of the refusal.
	until := time.Now().UTC().Add(26 * time.Hour).Truncate(time.Minute)
	b.fill("endsAt", until.Format("2006-01-02T15:04"))
	b.await("document.querySelector('#dialog #effect').innerText.includes('No notices for these endpoints for 1 d 2 h')")
	b.shoot("window")
	b.confirms("New maintenance window")
	b.says("<i>the database</i> moves")
	b.says(until.Format("Mon 2 Jan 2006 15:04:05 UTC"))
	b.says("active")
	b.shoot("windows")
	b.accessible()

	b.click("[aria-label='Edit upgrade']")
	b.await("document.querySelector('#dialog[open] [name=labels]').value === 'team=shop'")
	b.fill("reason", "it takes longer")
	b.confirms("Edit window upgrade")
	b.says("it takes longer")
	stored := w.window(t)
	require.True(t, until.Equal(stored.EndsAt), "what nobody touched is as it was: %s", stored.EndsAt)
	require.Equal(t, map[string]string{"team": "shop"}, *stored.Labels)

	b.click("[aria-label='End now upgrade']")
	b.confirms("Ends the window now instead of at")
	b.await("!document.querySelector('[aria-label=\"End now upgrade\"]') && document.querySelector('[aria-label=\"Delete upgrade\"]')")
	ended := w.window(t)
	require.WithinDuration(t, time.Now(), ended.EndsAt, time.Hour)
	require.True(t, stored.StartsAt.Equal(ended.StartsAt))
	require.Equal(t, stored.Labels, ended.Labels)
	require.Equal(t, "it takes longer", ended.Reason)
	b.says("ended")
	b.click("[aria-label='Delete upgrade']")
	b.confirms("Deletes the window")
	b.says("No maintenance windows.")
	b.clean()
}

// window returns the only maintenance window.
func (w *world) window(t *testing.T) client.MaintenanceWindow {
	t.Helper()
	var list client.MaintenanceWindowList
	w.api(t, http.MethodGet, "/v1/maintenance-windows", nil, &list)
	require.Len(t, list.Items, 1)
	return list.Items[0]
}

// The dialog of a new rule or window does not overwrite one that another user has created under the
// same name.
func TestCreatingChannelReplacesNoChannel(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	v := w.visitor(t)
	v.signIn(w.key)
	rule := url.Values{"name": {"oncall"}, "event": {"lost"}, "kind": {"webhook"}, "url": {"https://first.example.com/"}, "enabled": {"yes"}}
	window := url.Values{"name": {"upgrade"}, "startsAt": {"2040-01-01T00:00"}, "endsAt": {"2040-01-02T00:00"}, "reason": {"first"}}
	require.Equal(t, http.StatusSeeOther, v.ask("/console/notices/rules", rule).status)
	require.Equal(t, http.StatusSeeOther, v.ask("/console/notices/windows", window).status)
	rule.Set("url", "https://second.example.com/")
	window.Set("reason", "second")
	for path, form := range map[string]url.Values{"/console/notices/rules": rule, "/console/notices/windows": window} {
		a := v.ask(path, form)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, path)
		require.Contains(t, a.body, "is in use", path)
	}
	var stored client.NoticeRule
	w.api(t, http.MethodGet, "/v1/notice-rules/oncall", nil, &stored)
	require.Equal(t, "https://first.example.com/", *stored.Channel.URL)
	require.Equal(t, "first", w.window(t).Reason)

	rule.Set("old", "oncall")
	rule.Set("version", "1")
	window.Set("old", "upgrade")
	require.Equal(t, http.StatusSeeOther, v.ask("/console/notices/rules", rule).status, "an edit does")
	require.Equal(t, http.StatusSeeOther, v.ask("/console/notices/windows", window).status)
	rule.Set("url", "https://third.example.com/")
	require.Equal(t, http.StatusPreconditionFailed, v.ask("/console/notices/rules", rule).status, "one that somebody else overtook does not")
	w.api(t, http.MethodGet, "/v1/notice-rules/oncall", nil, &stored)
	require.Equal(t, "https://second.example.com/", *stored.Channel.URL)
	require.Equal(t, "second", w.window(t).Reason)
}
