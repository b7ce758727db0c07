package dispatch_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

const canary = "canary-08d2f1aa"

// secretStores is where a bundle keeps its secrets.
type secretStores struct {
	secrets *secrets.Service
	signing *signing.Service
	vault   *secrets.Vault
	db      *pg.DB
}

func (b *bundle) safe(t *testing.T) *secretStores {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: b.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	ring, err := secrets.NewKeyring([]secrets.Key{{ID: "k1", Bytes: secrets.NewText(strings.Repeat("0123456789abcdef", 2))}})
	require.NoError(t, err)
	values := keystore.NewSecrets(db)
	return &secretStores{
		secrets: secrets.NewService(values, ring), signing: signing.NewService(values, ring),
		vault: secrets.NewVault(values, ring, slog.New(slog.DiscardHandler)), db: db,
	}
}

func (s *secretStores) put(t *testing.T, name, value string) {
	t.Helper()
	_, _, err := s.secrets.Put(t.Context(), tenant, secrets.Request{Name: name, Value: secrets.NewText(value)})
	require.NoError(t, err)
}

// key makes a signing key and returns what verifies it.
func (s *secretStores) key(t *testing.T) (signing.KeyID, *standardwebhooks.Webhook) {
	t.Helper()
	made, text, err := s.signing.Create(t.Context(), tenant, signing.Request{})
	require.NoError(t, err)
	hook, err := standardwebhooks.NewWebhook(text.Reveal())
	require.NoError(t, err)
	return made.ID, hook
}

func (s *secretStores) open(c *dispatch.Config) { c.Secrets = s.vault }

// signed is an edit for a request with a body, which is signed.
func signed(s *endpoints.Spec) {
	s.Method, s.Body, s.Sign = "POST", `{"run":"{{run.id}}"}`, true
	s.Headers = map[string]string{"Content-Type": "application/json"}
}

// TestSignaturesHoldForTheLibraryOfTheStandard: under both live keys, over the body as it arrived.
func TestSignaturesHoldForTheLibraryOfTheStandard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, target := b.safe(t), answering(t)
	oldID, older := s.key(t)
	_, newer := s.key(t)
	stranger, err := standardwebhooks.NewWebhook(signing.NewText().Reveal())
	require.NoError(t, err)
	e := b.register(t, target, signed)
	b.work(t, s.open)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	r := target.Requests()[0]
	require.Equal(t, r.Header.Get("Rubato-Run-Id"), r.Header.Get("Webhook-Id"))
	require.Contains(t, string(r.Body), r.Header.Get("Webhook-Id"), "what is signed is rendered")
	require.NoError(t, older.Verify(r.Body, r.Header))
	require.NoError(t, newer.Verify(r.Body, r.Header))
	require.Error(t, stranger.Verify(r.Body, r.Header))
	require.Error(t, newer.Verify(append(r.Body, ' '), r.Header))
	other := r.Header.Clone()
	other.Set("Webhook-Id", "run_other")
	require.Error(t, newer.Verify(r.Body, other))

	require.NoError(t, s.signing.Delete(t.Context(), tenant, oldID))
	_, err = b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.await(t, 2, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	r = target.Requests()[1]
	require.Error(t, older.Verify(r.Body, r.Header), "a deleted key signs nothing")
	require.NoError(t, newer.Verify(r.Body, r.Header))
}

func TestRequestThatCannotBeSignedIsNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, target := b.safe(t), answering(t)
	e := b.register(t, target, signed)
	b.work(t, s.open)

	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'failed' AND reason_code = 'signing_failed' AND error LIKE 'nothing was sent: %POST /v1/signing-keys%'")

	require.Empty(t, target.Requests())
	require.Equal(t, 1, b.state(t, e).FailureCount)
}

// TestSignatureStaysWithItsHost: a redirect to another host carries no proof that this tenant has
// sent it.
func TestSignatureStaysWithItsHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, elsewhere := b.safe(t), answering(t)
	s.key(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("307 Temporary Redirect", elsewhere.URL())))
	b.register(t, target, func(spec *endpoints.Spec) { signed(spec); spec.FollowRedirects = 1 })
	b.work(t, s.open)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	require.NotEmpty(t, target.Requests()[0].Header.Get("Webhook-Signature"))
	require.Empty(t, elsewhere.Requests()[0].Header.Get("Webhook-Signature"))
}

// TestASecretBodyIsNotRedirected queues a request with a secret in its body. The endpoint gets
// redirects only afterwards, so that no check at the API has seen both.
func TestASecretBodyIsNotRedirected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, elsewhere := b.safe(t), answering(t)
	s.put(t, "token", canary)
	target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("307 Temporary Redirect", elsewhere.URL())))
	e := b.register(t, target, func(spec *endpoints.Spec) { spec.Method = "POST" })
	_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{
		Override: endpoints.Override{Body: new(`tok={{secret "token"}}`)},
	})
	require.NoError(t, err)
	_, _, err = b.service.Edit(t.Context(), tenant, e.ID, 0, func(spec endpoints.Spec) (endpoints.Spec, error) {
		spec.FollowRedirects = 3
		return spec, nil
	})
	require.NoError(t, err)
	b.work(t, s.open)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE source = 'manual' AND status_code = 307")

	require.Equal(t, "tok="+canary, string(target.Requests()[0].Body))
	for _, r := range elsewhere.Requests() {
		require.NotContains(t, string(r.Body), canary)
	}
}

// TestRunUsesTheSecretThatWasPutBeforeItStarted: whatever worker runs it, and however recent the
// change is.
func TestRunUsesTheSecretThatWasPutBeforeItStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, target := b.safe(t), answering(t)
	s.put(t, "token", canary+"-0")
	e := b.register(t, target, func(spec *endpoints.Spec) { spec.Headers = map[string]string{"X-Token": `{{secret "token"}}`} })
	b.work(t, s.open)
	b.work(t, b.safe(t).open)
	b.awaitTimely(t, 1)
	for n := 1; n <= 12; n++ {
		value := fmt.Sprintf("%s-%d", canary, n)
		s.put(t, "token", value)
		_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
		require.NoError(t, err)
		b.await(t, n+1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
		require.Equal(t, value, target.Requests()[n].Header.Get("X-Token"))
	}
}

// TestEchoedSecretsAreMaskedBeforeStorage echoes a secret in the body, verbatim, encoded, and at
// the end of a cut body.
func TestEchoedSecretsAreMaskedBeforeStorage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.safe(t)
	s.put(t, "token", canary)
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			r, ok := c.Next()
			if !ok {
				return
			}
			got := r.Header.Get("X-Token")
			pad := strings.Repeat("x", 1024-len(got)-20)
			if !c.Write(egresstest.OK(got + " " + pad + strings.Repeat(got, 3))) {
				return
			}
		}
	})
	b.register(t, target, func(spec *endpoints.Spec) {
		spec.Headers, spec.MaxResponseKB = map[string]string{"X-Token": `{{secret "token"}}`}, 1
	})
	b.work(t, s.open)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	require.Equal(t, canary, target.Requests()[0].Header.Get("X-Token"), "the target itself gets it")
	body := query[[]byte](t, b, "SELECT body FROM run_bodies")
	require.True(t, strings.HasPrefix(string(body), "[secret] x"))
	require.NotContains(t, string(body), canary[:8])
}

// locked is a vault that cannot be read at first.
type locked struct {
	request.Secrets
	asked atomic.Int32
}

func (l *locked) At(ctx context.Context, tenant [16]byte, version int64) (*secrets.Set, error) {
	if l.asked.Add(1) == 1 {
		return nil, errors.New("the database is away")
	}
	return l.Secrets.At(ctx, tenant, version)
}

// TestRunWithoutItsSecretsIsTriedAgain: the next due time of the endpoint is an hour away, and a
// database that is away or slow comes back.
func TestRunWithoutItsSecretsIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	know := b.lockedAway(t, map[string]string{"token": canary})
	e := b.register(t, target, func(spec *endpoints.Spec) { spec.Headers = map[string]string{"X-Token": `{{secret "token"}}`} })
	b.work(t, func(c *dispatch.Config) {
		know(c)
		c.Secrets = &locked{Secrets: c.Secrets}
	})

	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	first := query[string](t, b, "SELECT concat_ws(' ', status, reason_code, error) FROM runs WHERE infra_attempt = 0")
	require.Equal(t, "skipped start_expired nothing was sent: the secrets could not be read from the database within 1s of the start", first)
	require.Len(t, target.Requests(), 1)
	require.Equal(t, canary, target.Requests()[0].Header.Get("X-Token"))
	require.Zero(t, b.state(t, e).FailureCount)
}

// TestASecretUnderAnUnknownKeyIsNoFailureOfTheTarget has a worker with the keyring of another
// installation.
func TestASecretUnderAnUnknownKeyIsNoFailureOfTheTarget(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*endpoints.Spec){
		"Template": func(s *endpoints.Spec) { s.Headers = map[string]string{"X-Token": `{{secret "token"}}`} },
		"Signing":  signed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s, target := b.safe(t), answering(t)
			s.put(t, "token", canary)
			s.key(t)
			other, err := secrets.NewKeyring([]secrets.Key{{ID: "k2", Bytes: secrets.NewText(strings.Repeat("fedcba9876543210", 2))}})
			require.NoError(t, err)
			e := b.register(t, target, edit)
			b.work(t, func(c *dispatch.Config) {
				c.Secrets = secrets.NewVault(keystore.NewSecrets(s.db), other, slog.New(slog.DiscardHandler))
			})

			b.await(t, 1, `SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'secrets_unavailable' AND error LIKE 'nothing was sent: %"k1" is missing'`)

			require.Empty(t, target.Requests())
			require.Zero(t, b.state(t, e).FailureCount)
		})
	}
}

// slow is a vault that answers when its context ends, and signals each call.
type slow struct{ asked chan struct{} }

func (s slow) At(ctx context.Context, _ [16]byte, _ int64) (*secrets.Set, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (slow) Used([16]byte, []string, [16]byte) {}

// TestRunThatTheWorkersEndCutsOffFromItsSecretsIsLost: nothing is wrong with the secrets, and
// another attempt may mend it.
func TestRunThatTheWorkersEndCutsOffFromItsSecretsIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, target, vault := b.safe(t), answering(t), slow{make(chan struct{}, 1)}
	s.put(t, "token", canary)
	b.register(t, target, func(spec *endpoints.Spec) { spec.Headers = map[string]string{"X-Token": `{{secret "token"}}`} })
	p := b.work(t, func(c *dispatch.Config) { c.Secrets, c.Grace = vault, 0 })
	waittest.Receive(t, vault.asked)
	p.stop(t)

	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'shutdown' AND error LIKE 'nothing was sent: %'"))
	require.Empty(t, target.Requests())
}

func TestPlainRunAsksForNoSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, vault := answering(t), &locked{}
	b.register(t, target, nil)
	b.work(t, func(c *dispatch.Config) { c.Secrets = vault })

	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	require.Zero(t, vault.asked.Load())
	require.Empty(t, target.Requests()[0].Header.Get("webhook-signature"))
}

// TestTimeOfASignatureIsThatOfTheDatabase: a worker with a wrong clock signs with the right time.
// The test's database shares this machine's clock, so the instant must be close to the recorded
// start.
func TestTimeOfASignatureIsThatOfTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, target := b.safe(t), answering(t)
	s.key(t)
	b.register(t, target, signed)
	b.work(t, s.open)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	started := query[time.Time](t, b, "SELECT started_at FROM runs")
	at := target.Requests()[0].Header.Get("Webhook-Timestamp")
	require.Contains(t, []string{fmt.Sprint(started.Unix() - 1), fmt.Sprint(started.Unix()), fmt.Sprint(started.Unix() + 1)}, at)
}

// TestNothingThatIsMadeOfASecretIsStored has targets that echo a secret as it was sent, cut it, and
// call their answers by it.
func TestNothingThatIsMadeOfASecretIsStored(t *testing.T) {
	t.Parallel()
	const secret = "Canary-7f&<sécret>-0042-tail"
	upper, lower := strings.ToUpper(secret), strings.ToLower(secret)
	twice := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(secret))))
	form := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
	filler := strings.Repeat("x", 1000)
	ascii := "canary-ascii-0042-0042"
	token := strings.Repeat("canary-long-token-0042.", 70)
	hidden := func(s *endpoints.Spec) {
		s.MaxResponseKB, s.Redact = 2, []endpoints.RedactRule{{Pattern: "pin-[0-9]+"}}
	}
	for name, tc := range map[string]struct {
		answer string
		edit   func(*endpoints.Spec)
	}{
		"Filters": {egresstest.OK("begin " + upper + " " + lower + " " + twice + " end"), func(s *endpoints.Spec) {
			s.Headers = map[string]string{"X-A": `{{secret "one" | upper}}`, "X-B": `{{secret "one" | lower}}`, "X-C": `{{secret "one" | base64 | base64}}`}
		}},
		"Forms": {egresstest.OK("begin pin=" + form + " Canary-7f&amp;&lt;sécret&gt;-0042-tail end"), func(s *endpoints.Spec) {
			s.Method, s.Body, s.Headers = "POST", `pin={{secret "one"}}`, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
		}},
		"ConnectionLost":     {"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\nbegin " + secret[:20], nil},
		"EndsInIt":           {egresstest.OK("begin " + secret[:20]), nil},
		"HeadIsCut":          {egresstest.OK("begin " + filler[:1000] + secret + filler + filler + " end"), nil},
		"HeadIsCutAndHidden": {egresstest.OK("begin " + filler + token + filler), hidden},
		"TailIsCutAndHidden": {egresstest.OK("begin " + filler + filler + filler + token + filler[:200]), hidden},
		"TailIsCut":          {cutTail(secret, 3), nil},
		"QuotationIsCut": {egresstest.OK("begin " + filler[:180] + secret), func(s *endpoints.Spec) {
			s.SuccessRules = []endpoints.AnswerRule{{Type: "body", Op: "equals", Value: "good"}}
		}},
		"StopIsCut": {"HTTP/1.1 200 OK\r\nRubato-Stop: begin " + filler[:280] + ascii + "\r\nContent-Length: 0\r\n\r\n", nil},
		"Validators": {
			"HTTP/1.1 200 OK\r\nETag: \"v-" + ascii + "\"\r\nLast-Modified: " + ascii + "\r\nContent-Type: text/" + ascii + "\r\nContent-Length: 5\r\n\r\nbegin",
			func(s *endpoints.Spec) { s.Conditional = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			know := b.lockedAway(t, map[string]string{"one": secret, "ascii": ascii, "token": token})
			e := b.register(t, egresstest.Start(t, egresstest.Once(tc.answer)), func(s *endpoints.Spec) {
				s.MaxResponseKB, s.ResponseTailKB = 1, 1
				s.Headers = map[string]string{"X-One": `{{secret "one"}}`, "X-Ascii": `{{secret "ascii"}}`, "X-Token": `{{secret "token"}}`}
				if tc.edit != nil {
					tc.edit(s)
				}
			})
			b.work(t, know)
			b.awaitTimely(t, 1)
			stored := b.kept(t)
			require.Contains(t, stored, "begin")
			for _, form := range []string{secret, upper, lower, twice, form, ascii, "0042-tail", "42-0042", "canary-long", "long-token", secret[:12], ascii[:10], "7f&amp;"} {
				require.NotContains(t, stored, form, e.ID.String())
			}
		})
	}
}

// kept returns all that the database keeps of runs, as text.
func (b *bundle) kept(t *testing.T) string {
	t.Helper()
	return query[string](t, b, `SELECT concat_ws(' ', (SELECT string_agg(r::text, ' ') FROM runs r), (SELECT string_agg(v::text, ' ') FROM validators v),
		(SELECT string_agg(content_type || convert_from(body, 'UTF8') || coalesce(convert_from(tail, 'UTF8'), ''), ' ') FROM run_bodies),
		(SELECT string_agg(v::text, ' ') FROM events v), (SELECT string_agg(v::text, ' ') FROM run_events v),
		(SELECT string_agg(pause_reason, ' ') FROM schedules))`)
}

// cutTail returns an answer with a tail of a kilobyte that begins behind bytes after the start of a
// text.
func cutTail(text string, behind int) string {
	rest := strings.Repeat("y", 1024-len(text)+behind)
	return egresstest.OK("begin " + strings.Repeat("x", 3000) + text + rest)
}

// TestAStatusThatIsNoneEndsOneRunAndNoOther: runs are recorded in batches, and one row that cannot
// be takes the others with it.
func TestAStatusThatIsNoneEndsOneRunAndNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fine := b.register(t, answering(t), nil)
	p := b.work(t, nil)
	for n, status := range []string{"000", "012", "099", "+20"} {
		b.await(t, n+1, "SELECT count(*) FROM runs WHERE endpoint_id = $1 AND status = 'succeeded'", [16]byte(fine.ID))
		b.runNow(t, fine)
		odd := b.register(t, egresstest.Start(t, egresstest.Answer("HTTP/1.1 "+status+" Odd\r\nContent-Length: 0\r\n\r\n")), nil)
		p.Wake(time.Now())
		b.await(t, 1, "SELECT count(*) FROM runs WHERE endpoint_id = $1 AND finished_at IS NOT NULL", [16]byte(odd.ID))
		ended, reason, text := b.lastRun(t, odd)
		require.Equal(t, "failed", ended)
		require.Equal(t, "protocol_error", reason)
		require.Contains(t, text, "a status that is not one of 200 to 999")
	}
	b.await(t, 5, "SELECT count(*) FROM runs WHERE endpoint_id = $1 AND status = 'succeeded'", [16]byte(fine.ID))
}
