package courier_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/auditlog"
	"rubato/internal/courier"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/hosts"
	"rubato/internal/notices"
	"rubato/internal/oauth2"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	keystore "rubato/internal/store/keys"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a database with one endpoint, and the dependencies of couriers.
type bundle struct {
	db      *pg.DB
	pool    *pgxpool.Pool
	notices *noticestore.Store
	secrets *secrets.Service
	signing *signing.Service
	vault   *secrets.Vault
	caller  *egress.Client
	mail    courier.Mail
	tokens  *oauth2.Cache
	public  string // URL of the console; empty: not set
	by      auditlog.Actor
}

func setup(t *testing.T) *bundle {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(t.Context(), pg.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ring, err := secrets.NewKeyring([]secrets.Key{{ID: "k1", Bytes: secrets.NewText(strings.Repeat("0123456789abcdef", 2))}})
	require.NoError(t, err)
	caller := egress.New(egress.Config{Rules: egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	t.Cleanup(caller.Close)
	keeper := keystore.NewSecrets(db)
	b := &bundle{
		db: db, pool: pool, notices: noticestore.NewStore(db, new(atomic.Pointer[notices.RuleCache])), secrets: secrets.NewService(keeper, ring), signing: signing.NewService(keeper, ring),
		vault: secrets.NewVault(keeper, ring, slog.New(slog.DiscardHandler)), caller: caller,
		by: auditlog.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}, tokens: oauth2.New(caller),
	}
	t.Cleanup(b.tokens.Close)
	return b
}

type emptyAllowances struct{}

func (emptyAllowances) Of([16]byte) *egress.Allowance { return nil }

func (b *bundle) channels() *courier.Channels {
	return courier.NewChannels(courier.ChannelsConfig{
		Secrets: b.vault, Caller: b.caller, Allowances: emptyAllowances{}, Mail: b.mail, Tokens: b.tokens, Tests: b.notices,
		PublicURL: b.public,
	})
}

// deliver runs a courier on a store until the test ends.
func (b *bundle) deliver(t *testing.T, on courier.Store) {
	t.Helper()
	c := courier.New(courier.Config{
		Store: on, Channels: b.channels(), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// happen opens the one episode of a rule with a channel.
func (b *bundle) happen(t *testing.T, channel notices.Channel) {
	t.Helper()
	_, _, err := b.notices.PutRule(t.Context(), b.by, "all", notices.Spec{
		Event: notices.Failures, Failures: 3, Recovery: true, Enabled: true, Channel: channel,
	}, endpoints.Condition{})
	require.NoError(t, err)
	b.exec(t, `INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
		VALUES ('11111111-0000-0000-0000-000000000000', $1, 1, now(), now(),
			'{"name": "Shop <!channel> & co", "labels": {"team": "shop"}, "url": "http://t.example/", "method": "GET", "baselineIntervalMs": 60000,
			  "timezone": "UTC", "dst": {"gap": "run", "overlap": "once"}, "catchUp": "skip", "minIntervalMs": 1000, "maxIntervalMs": 86400000,
			  "jitterMs": 0, "timeoutMs": 1000, "maxExecutionTimeMs": 1000, "maxResponseKb": 0, "followRedirects": 0, "success": "2xx",
			  "retry": {"maxAttempts": 1, "backoffMs": 1000, "maxBackoffMs": 1000}, "idempotent": false, "planner": "observe"}')`, keystore.DefaultTenant)
	b.exec(t, `INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders)
		SELECT '22222222-0000-0000-0000-000000000000', tenant_id, id, name, '11111111-0000-0000-0000-000000000000', event, now() - interval '1 minute',
		       '{"failures": 3, "status": "failed", "reasonCode": "http_status", "statusCode": 503}', 'infinity', 0 FROM notice_rules`)
	b.exec(t, `INSERT INTO schedules (endpoint_id, due_at, planned_at, slot, claim_token, version, lock_ms, attempt, source, failure_count, accounted_until)
		VALUES ('11111111-0000-0000-0000-000000000000', now() + interval '1 hour', now() + interval '1 hour', now() + interval '1 hour', 1, 1, 6000, 1,
		        'baseline-interval', 3, now())`)
	b.write(t, "opened")
}

// write writes a notice of the episode.
func (b *bundle) write(t *testing.T, kind string) {
	t.Helper()
	b.exec(t, `INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
		VALUES (audit_log_id(now()), $1, '22222222-0000-0000-0000-000000000000', $2, 0, now(), now(), 'waiting', 0, 0, false, '')`, keystore.DefaultTenant, kind)
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// awaitState waits until the notice of a kind is in a state.
func (b *bundle) awaitState(t *testing.T, kind, state string) {
	t.Helper()
	b.await(t, "SELECT state = $2 FROM notices WHERE kind = $1", kind, state)
}

// await waits until a query answers with true.
func (b *bundle) await(t *testing.T, sql string, args ...any) {
	t.Helper()
	waittest.Until(t, func() bool {
		var is bool
		err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&is)
		return err == nil && is
	}, sql)
}

// receiver is a server that records its requests and answers with a list of statuses, then with
// 204.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	got      []received
	statuses []int
}

type received struct {
	path   string
	query  string
	header http.Header
	body   []byte
}

func receive(t *testing.T, statuses ...int) *receiver {
	t.Helper()
	r := &receiver{statuses: statuses}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, received{path: q.URL.Path, query: q.URL.RawQuery, header: q.Header, body: body})
	status := http.StatusNoContent
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	w.WriteHeader(status)
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func TestAWebhookIsSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, key, err := b.signing.Create(t.Context(), b.by, signing.Request{})
	require.NoError(t, err)
	hooks := receive(t)
	b.happen(t, notices.Channel{Kind: notices.Webhook, URL: hooks.URL + "/in"})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")

	got := hooks.all()
	require.Len(t, got, 1)
	h := got[0].header
	var seconds int64
	require.NoError(t, json.Unmarshal([]byte(h.Get(signing.HeaderTimestamp)), &seconds))
	want, err := signing.Sign(signing.Message{ID: h.Get(signing.HeaderID), At: time.Unix(seconds, 0), Body: got[0].body}, []secrets.Text{key})
	require.NoError(t, err)
	require.Equal(t, want.Get(signing.HeaderSignature), h.Get(signing.HeaderSignature))
	require.Equal(t, "v1,"+signature(t, key.Reveal(), h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."+string(got[0].body)), h.Get("webhook-signature"))
	require.True(t, strings.HasPrefix(h.Get(signing.HeaderID), "ntc_"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(got[0].body, &body))
	require.Equal(t, "notice.opened", body["type"])
	require.Equal(t, `"Shop <!channel> & co" fails: 3 failures in a row`, body["data"].(map[string]any)["summary"])
}

// signature returns the signature of Standard Webhooks, computed with the standard library alone.
func signature(t *testing.T, key, content string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	require.NoError(t, err)
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(content))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// TestFailedNoticeIsRetriedUnderSameID: a notice that the receiver refuses is retried under the
// same ID until it is delivered.
func TestFailedNoticeIsRetriedUnderSameID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slack := receive(t, http.StatusServiceUnavailable)
	_, _, err := b.secrets.Put(t.Context(), b.by, secrets.Request{Name: "slack-url", Value: secrets.NewText(slack.URL + "/services/T0/SECRET")})
	require.NoError(t, err)
	b.happen(t, notices.Channel{Kind: notices.Slack, URLSecret: "slack-url"})
	b.deliver(t, b.notices)
	waittest.Until(t, func() bool {
		var attempts int
		var text string
		err := b.pool.QueryRow(t.Context(), "SELECT attempts, error FROM notices").Scan(&attempts, &text)
		return err == nil && attempts == 1 && text == "the receiver answered with status 503"
	})
	b.exec(t, "UPDATE notices SET due_at = now()")
	b.awaitState(t, "opened", "delivered")

	got := slack.all()
	require.Len(t, got, 2)
	require.Equal(t, "/services/T0/SECRET", got[1].path)
	require.Equal(t, got[0].body, got[1].body)
	require.Contains(t, string(got[1].body), `Shop \u0026lt;!channel\u0026gt; \u0026amp; co`, "nothing of a name means anything to the receiver")
	list, err := b.notices.ListNotices(t.Context(), notices.Filter{TenantID: b.by.TenantID, Limit: 10})
	require.NoError(t, err)
	require.NotContains(t, list[0].Error, "SECRET")
}

// TestMentionsFromTargetsAreEscaped: mentions in a target's answer notify no member of a Mattermost
// or Discord channel when a notice quotes them.
func TestMentionsFromTargetsAreEscaped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	chat := receive(t)
	b.happen(t, notices.Channel{Kind: notices.Slack, URL: chat.URL})
	b.exec(t, `UPDATE notice_episodes SET detail = detail || '{"error": "found \"@channel @here @everyone @ann\""}'`)
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")

	var message struct{ Text string }
	require.NoError(t, json.Unmarshal(chat.all()[0].body, &message))
	require.Contains(t, strings.ReplaceAll(message.Text, "\u200b", ""), `found "@channel @here @everyone @ann"`, "it reads as it did")
	require.NotRegexp(t, `@\w`, message.Text)
}

// TestALongNoticeFitsEveryChat quotes answers longer than Discord's limit of 2000 units of UTF-16.
func TestALongNoticeFitsEveryChat(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"Plain":     strings.Repeat("a", 3000),
		"Escaped":   strings.Repeat("&", 3000),
		"TwoUnits":  "a" + strings.Repeat("😀", 3000),
		"Beginning": "b" + strings.Repeat("<", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			chat := receive(t)
			b.happen(t, notices.Channel{Kind: notices.Slack, URL: chat.URL})
			b.exec(t, `UPDATE notice_episodes SET detail = detail || jsonb_build_object('error', $1::text)`, said)
			b.deliver(t, b.notices)
			b.awaitState(t, "opened", "delivered")

			var message struct{ Text string }
			require.NoError(t, json.Unmarshal(chat.all()[0].body, &message))
			size := len(utf16.Encode([]rune(message.Text)))
			require.LessOrEqual(t, size, 2000)
			require.Greater(t, size, 1990, "no more is cut than has to be")
			require.Regexp(t, `(a|&amp;|😀|&lt;)…$`, message.Text, "it is cut between two characters")
			require.Contains(t, message.Text, "\nRule: all\n")
		})
	}
}

// TestUndeliverableNoticeBecomesDeadLetter sends to an address without a receiver.
func TestUndeliverableNoticeBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	away := receive(t)
	url := away.URL + "/SECRET"
	away.Close()
	b.happen(t, notices.Channel{Kind: notices.Slack, URL: url})
	b.exec(t, "UPDATE notices SET attempts = $1", notices.MaxAttempts-1)
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "dead")
	list, err := b.notices.ListNotices(t.Context(), notices.Filter{TenantID: b.by.TenantID, State: notices.Dead, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, notices.MaxAttempts, list[0].Attempts)
	require.Contains(t, list[0].Error, "could not be reached")
	require.NotContains(t, list[0].Error, "SECRET")
}

// TestUnreadableNoticeBecomesDeadLetterUntilReadable stores a channel past the API that no program
// can have written.
func TestUnreadableNoticeBecomesDeadLetterUntilReadable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	chat := receive(t)
	channel := notices.Channel{Kind: notices.Slack, URL: chat.URL}
	b.happen(t, channel)
	b.exec(t, `UPDATE notice_rules SET channel = channel || '{"to": "nobody"}'`)
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "dead")
	list, err := b.notices.ListNotices(t.Context(), notices.Filter{TenantID: b.by.TenantID, State: notices.Dead, Limit: 10})
	require.NoError(t, err)
	require.Contains(t, list[0].Error, `reading the channel of the notice rule "all"`)

	b.exec(t, "UPDATE notice_rules SET channel = channel - 'to'")
	_, err = b.notices.RetryNotice(t.Context(), b.by, list[0].ID)
	require.NoError(t, err)
	b.awaitState(t, "opened", "delivered")
	require.Len(t, chat.all(), 1)
}

func TestAlertmanagerReceivesEndOfEpisode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	manager := receive(t, http.StatusOK, http.StatusOK)
	_, _, err := b.secrets.Put(t.Context(), b.by, secrets.Request{Name: "token", Value: secrets.NewText("t0ken")})
	require.NoError(t, err)
	b.happen(t, notices.Channel{Kind: notices.Alertmanager, URL: manager.URL + "/am/?tenant=shop#alerts", TokenSecret: "token"})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")
	b.exec(t, "UPDATE notice_episodes SET closed_at = now()")
	b.exec(t, `UPDATE endpoints SET spec = spec || '{"name": "Shop, mended"}'`)
	b.write(t, "recovered")
	b.awaitState(t, "recovered", "delivered")

	got := manager.all()
	require.Len(t, got, 2)
	var alerts [2][]struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	for i := range got {
		require.Equal(t, "/am/api/v2/alerts", got[i].path)
		require.Equal(t, "tenant=shop", got[i].query)
		require.Equal(t, "Bearer t0ken", got[i].header.Get("Authorization"))
		require.NoError(t, json.Unmarshal(got[i].body, &alerts[i]))
	}
	require.Equal(t, alerts[0][0].Labels, alerts[1][0].Labels, "an alert is known by its labels")
	require.Equal(t, "RubatoFailures", alerts[0][0].Labels["alertname"])
	require.Equal(t, "Shop, mended", alerts[1][0].Annotations["endpoint"])
	require.True(t, alerts[0][0].EndsAt.After(time.Now().Add(24*time.Hour)))
	require.True(t, alerts[1][0].EndsAt.Before(time.Now().Add(time.Minute)))
}

// TestEgressGuardAppliesToNotices sends to an address that the operator forbids.
func TestEgressGuardAppliesToNotices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.happen(t, notices.Channel{Kind: notices.Slack, URL: "http://169.254.169.254/latest"})
	b.deliver(t, b.notices)
	waittest.Until(t, func() bool {
		var text string
		err := b.pool.QueryRow(t.Context(), "SELECT error FROM notices WHERE attempts = 1").Scan(&text)
		return err == nil && strings.Contains(text, "egress_denied")
	})
}

// unrecordedStore is the store of a process that is unrecordedStore after it has sent: no result of
// a delivery is recorded.
type unrecordedStore struct{ *noticestore.Store }

func (unrecordedStore) End(context.Context, *notices.Delivery, notices.State, notices.Result) (bool, error) {
	return false, errors.New("killed")
}

// TestCrashAfterSendLeavesOneNotice: another courier takes the notice over when the lock of the
// killed one has expired.
func TestCrashAfterSendLeavesOneNotice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.signing.Create(t.Context(), b.by, signing.Request{})
	require.NoError(t, err)
	hooks := receive(t)
	b.happen(t, notices.Channel{Kind: notices.Webhook, URL: hooks.URL})
	first := courier.New(courier.Config{
		Store: unrecordedStore{b.notices}, Channels: b.channels(), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, kill := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); first.Run(ctx) }()
	waittest.Until(t, func() bool { return len(hooks.all()) == 1 })
	kill()
	<-done
	b.exec(t, "UPDATE notices SET due_at = now()") // The lock has expired.
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")

	got := hooks.all()
	require.Len(t, got, 2)
	require.Equal(t, got[0].header.Get(signing.HeaderID), got[1].header.Get(signing.HeaderID), "a receiver can tell that it has it already")
	require.Equal(t, got[0].body, got[1].body)
	var count int
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM notices").Scan(&count))
	require.Equal(t, 1, count)
}

// TestTestNoticeReturnsResult sends to a receiver that refuses. The test of a rule opens no
// episode.
func TestTestNoticeReturnsResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slack := receive(t, http.StatusForbidden)
	r := notices.Rule{Name: "x", TenantID: b.by.TenantID, Spec: notices.Spec{Event: notices.Lost, Channel: notices.Channel{Kind: notices.Slack, URL: slack.URL}}}
	result, err := b.channels().Test(t.Context(), b.by, r)
	require.NoError(t, err)
	require.False(t, result.Delivered())
	require.Equal(t, http.StatusForbidden, result.StatusCode)
	result, err = b.channels().Test(t.Context(), b.by, r)
	require.NoError(t, err)
	require.True(t, result.Delivered())
	require.Contains(t, string(slack.all()[1].body), "Test of the notice rule x")
	r.Channel = notices.Channel{Kind: notices.Webhook, URL: slack.URL}
	result, err = b.channels().Test(t.Context(), b.by, r)
	require.NoError(t, err)
	require.Equal(t, signing.ErrNoKey.Error(), result.Error)
	var count int
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM notices").Scan(&count))
	require.Zero(t, count)
}

// TestHangingReceiverDelaysOnlyItsRule has many notices for a receiver that never answers, and one
// of another rule.
func TestHangingReceiverDelaysOnlyItsRule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.signing.Create(t.Context(), b.by, signing.Request{})
	require.NoError(t, err)
	over := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-q.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(over) })
	hooks := receive(t)
	b.happen(t, notices.Channel{Kind: notices.Webhook, URL: hooks.URL})
	_, _, err = b.notices.PutRule(t.Context(), b.by, "hung", notices.Spec{
		Event: notices.Lost, Enabled: true, Channel: notices.Channel{Kind: notices.Webhook, URL: hung.URL},
	}, endpoints.Condition{})
	require.NoError(t, err)
	b.exec(t, `WITH over AS (
			INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, closed_at, detail, remind_at, reminders)
			SELECT gen_random_uuid(), tenant_id, id, name, '11111111-0000-0000-0000-000000000000', event, now(), now(), '{}', 'infinity', 0
			FROM notice_rules, generate_series(1, 150) WHERE name = 'hung' RETURNING id, tenant_id)
		INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
		SELECT audit_log_id(now()), tenant_id, id, 'opened', 0, now(), now() - interval '1 hour', 'waiting', 0, 0, false, '' FROM over`)

	b.deliver(t, b.notices)

	waittest.Until(t, func() bool { return len(hooks.all()) == 1 }, "the other rule is told")
}

// attempted returns a receiver that answers every attempt with a status, after n attempts to
// deliver one notice without backoff. A further attempt is due.
func (b *bundle) attempted(t *testing.T, n, status int) *receiver {
	t.Helper()
	hooks := receive(t, slices.Repeat([]int{status}, 20)...)
	b.happen(t, notices.Channel{Kind: notices.Slack, URL: hooks.URL})
	b.deliver(t, b.notices)
	for done := range n {
		b.await(t, "SELECT attempts = $1 FROM notices", done+1)
		b.exec(t, "UPDATE notices SET due_at = now()")
	}
	return hooks
}

// TestFailingReceiverIsLeftAlone opens the breaker of a receiver by five attempts. The sixth sends
// nothing, and the notice waits for the end of the window.
func TestFailingReceiverIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hooks := b.attempted(t, hosts.DefaultFailures, http.StatusInternalServerError)
	b.await(t, "SELECT starts_with(error, 'nothing was sent: the circuit of the receiver is open') AND attempts = $1 FROM notices", hosts.DefaultFailures+1)
	b.await(t, "SELECT due_at > now() + interval '20 s' FROM notices")
	require.Len(t, hooks.all(), hosts.DefaultFailures)
}

// TestReceiverThatRefusesANoticeWorks sends as many attempts as are due, because an answer below
// 500 is about the notice.
func TestReceiverThatRefusesANoticeWorks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hooks := b.attempted(t, hosts.DefaultFailures+1, http.StatusNotFound)
	require.GreaterOrEqual(t, len(hooks.all()), hosts.DefaultFailures+1)
}
