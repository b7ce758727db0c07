package dispatch_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// only returns the one run of an endpoint, once it is over.
func (b *bundle) only(t *testing.T, e *endpoints.Endpoint) runs.Run {
	t.Helper()
	b.await(t, 1, timelyRuns+" AND endpoint_id = $1 AND attempt > 0", [16]byte(e.ID))
	return b.last(t, e)
}

// last returns the newest run of an endpoint that is over, with its body.
func (b *bundle) last(t *testing.T, e *endpoints.Endpoint) runs.Run {
	t.Helper()
	list, err := b.runs.List(t.Context(), runs.Filter{TenantID: tenant.TenantID, EndpointID: e.ID, Limit: 1})
	require.NoError(t, err)
	require.Len(t, list, 1)
	run, err := b.runs.Get(t.Context(), tenant.TenantID, list[0].ID)
	require.NoError(t, err)
	return run
}

// TestEveryFailureClassHasItsReason has a target for every class of failure that a target or the
// way to it can cause.
func TestEveryFailureClassHasItsReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	quick := func(s *endpoints.Spec) { s.Timeout = 500 * time.Millisecond }
	drip := egresstest.Endless("HTTP/1.1 200 OK\r\n", "X: y\r\n", 20*time.Millisecond)
	body := egresstest.Endless("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "x", 20*time.Millisecond)
	secure := func(s *endpoints.Spec) { s.URL = "https" + strings.TrimPrefix(s.URL, "http") }
	plain := func(c *egresstest.Conn) {
		c.Write("HTTP/1.1 400 Bad Request\r\n\r\n")
		c.AwaitHangup()
	}
	cases := map[string]struct {
		script egresstest.Script
		edit   func(*endpoints.Spec)
		status runs.Status
		reason runs.Reason
		says   string
	}{
		"Status": {egresstest.Answer(egresstest.Status("500 Oops", "")), nil, runs.Failed, runs.HTTPStatus, ""},
		"Rule": {egresstest.Answer(egresstest.OK("fine")), func(s *endpoints.Spec) {
			s.SuccessRules = []endpoints.AnswerRule{{Type: "body", Op: "equals", Value: "good"}}
		}, runs.Failed, runs.SuccessRuleFailed, `successRules[0] does not hold (body equals "good"): found "fine"`},
		"NoAnswer":       {egresstest.Hold(""), quick, runs.TimedOut, runs.Timeout, "longer than its timeout"},
		"HeaderDrips":    {drip, quick, runs.TimedOut, runs.Timeout, "longer than its timeout"},
		"BodyDrips":      {body, quick, runs.TimedOut, runs.Timeout, "longer than its timeout"},
		"HeaderTooLarge": {egresstest.HeaderBomb(), nil, runs.Failed, runs.ResponseTooLarge, "larger than 64 KiB"},
		"TooManyFields":  {egresstest.Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("A: b\r\n", 600) + "\r\n"), nil, runs.Failed, runs.ResponseTooLarge, "512 header fields"},
		"NoHTTP":         {egresstest.Once("hello\r\n\r\n"), nil, runs.Failed, runs.ProtocolError, ""},
		"HangsUp":        {egresstest.CloseAfterReading(0), nil, runs.Failed, runs.ConnectionLost, ""},
		"StopsHalfWay":   {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), nil, runs.Failed, runs.ConnectionLost, ""},
		"NoListener":     {nil, func(s *endpoints.Spec) { s.URL = "http://127.0.0.1:1" }, runs.Failed, runs.ConnectError, ""},
		"NoSuchName":     {nil, func(s *endpoints.Spec) { s.URL = "http://no-such-name.invalid/" }, runs.Failed, runs.DNSError, ""},
		"NoTLS":          {plain, secure, runs.Failed, runs.TLSError, "does not speak TLS"},
		"HangsUpInTLS":   {egresstest.CloseOnArrival(0), secure, runs.Failed, runs.ConnectError, "in the TLS handshake"},
		"Private":        {nil, func(s *endpoints.Spec) { s.URL = "http://10.0.0.1/" }, runs.Failed, runs.EgressDenied, ""},
		"RedirectAway":   {egresstest.Answer(egresstest.Redirect("302 Found", "http://10.0.0.1/")), redirects(1), runs.Failed, runs.RedirectDenied, ""},
		"RedirectCircle": {egresstest.Answer(egresstest.Redirect("302 Found", "/again")), redirects(2), runs.Failed, runs.RedirectLimit, ""},
	}
	registered := map[string]*endpoints.Endpoint{}
	for name, tc := range cases {
		script := tc.script
		if script == nil {
			script = egresstest.Answer(egresstest.OK(""))
		}
		registered[name] = b.register(t, egresstest.Start(t, script), tc.edit)
	}
	p := b.work(t, nil)
	for name, tc := range cases {
		o := b.only(t, registered[name]).Outcome
		require.Equal(t, tc.reason, o.Reason, "%s: %s", name, o.Error)
		require.Equal(t, tc.status, o.Status, name)
		require.Contains(t, o.Error, tc.says, name)
	}
	p.stop(t)
}

func redirects(n int) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.FollowRedirects = n }
}

// TestSecretsOfAnAnswerAreNowhere looks for them in every table.
func TestSecretsOfAnAnswerAreNowhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-canary"
	b := setup(t)
	body := fmt.Sprintf(`{"user":{"token":"%s"},"note":"bearer %s","state":"bad"}`, secret, secret)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-State: %s\r\nSet-Cookie: %s\r\nRubato-Stop: because %s\r\n\r\n%s",
		len(body), secret, secret, secret, body)
	target := egresstest.Start(t, egresstest.Answer(answer))
	redact := []endpoints.RedactRule{{Header: "x-state"}, {JSONPath: "$..token"}, {Pattern: `s3cr3t-[a-z]+`, Replacement: "(hidden)"}}
	rules := [][]endpoints.AnswerRule{
		{{Type: "header", Header: "X-State", Op: "equals", Value: "x"}},
		{{Type: "header", Header: "Set-Cookie", Op: "equals", Value: "x"}},
		{{Type: "body", Op: "equals", Value: "x"}},
		{{Type: "json", JSONPath: "$.user.token", Op: "equals", Value: "x"}},
		{{Type: "json", JSONPath: "$.note", Op: "matches", Value: "^x"}},
		{{Type: "cel", Expression: `int(json.user.token) == 1`}},
		{{Type: "json", JSONPath: "$.state", Op: "equals", Value: "good"}},
	}
	var list []*endpoints.Endpoint
	for _, rule := range rules {
		list = append(list, b.register(t, target, func(s *endpoints.Spec) { s.Redact, s.SuccessRules = redact, rule }))
	}
	p := b.work(t, nil)
	for i, e := range list {
		o := b.only(t, e).Outcome
		require.Equal(t, runs.SuccessRuleFailed, o.Reason, i)
		require.Equal(t, `{"note":"bearer (hidden)","state":"bad","user":{"token":"***"}}`, string(o.Body))
		guess, _ := e.Spec.ParseForm()
		guessed, _ := guess.Digest([]byte(body), nil)
		require.NotEqual(t, guessed, o.BodyDigest, "a digest of what was hidden could be compared with guesses")
		require.NotZero(t, o.BodyDigest)
		require.Equal(t, "the target asked to stop: because (hidden)", b.state(t, e).PauseReason)
	}
	require.Contains(t, b.last(t, list[6]).Outcome.Error, `found "bad"`)
	p.stop(t)
	for _, table := range []string{"runs", "run_bodies", "events", "decisions", "audit_log", "schedules", "run_events", "validators"} {
		require.Zero(t, query[int](t, b, "SELECT count(*) FROM "+table+" x WHERE row_to_json(x)::text LIKE '%canary%' OR row_to_json(x)::text LIKE '%"+
			fmt.Sprintf("%x", secret)+"%'"), table)
	}
}

// TestATailIsKept has bodies around the length of the head, and one with an end that is too far
// away.
func TestATailIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("0123456789abcdef", 1024) // 16 KiB
	for name, tc := range map[string]struct {
		body, tail string
		truncated  bool
		read       int64
	}{
		"Short":    {"short", "", false, 5},
		"Fits":     {long[:1024], "", false, 1024},
		"OneMore":  {long[:1025], long[1024:1025], true, 1025},
		"Overlaps": {long[:1500], long[1024:1500], true, 1500},
		"Long":     {long, long[len(long)-2048:], true, int64(len(long))},
	} {
		target := egresstest.Start(t, egresstest.Answer(egresstest.OK(tc.body)))
		e := b.register(t, target, func(s *endpoints.Spec) { s.MaxResponseKB, s.ResponseTailKB = 1, 2 })
		p := b.work(t, nil)
		o := b.only(t, e).Outcome
		p.stop(t)
		require.Equal(t, runs.Succeeded, o.Status, name)
		require.Equal(t, tc.body[:min(1024, len(tc.body))], string(o.Body), name)
		require.Equal(t, tc.tail, string(o.Tail), name)
		require.Equal(t, tc.truncated, o.Truncated, name)
		require.Equal(t, tc.read, o.ResponseBytes, name)
	}
}

// TestATailNeedsTheEndOfTheAnswer: no tail is kept of an answer that breaks off, because its end is
// unknown.
func TestATailNeedsTheEndOfTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	head := "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 5000)
	spec := func(s *endpoints.Spec) { s.MaxResponseKB, s.ResponseTailKB, s.Timeout = 1, 1, 500*time.Millisecond }
	broken := b.register(t, egresstest.Start(t, egresstest.Once(head)), spec)
	stuck := b.register(t, egresstest.Start(t, egresstest.Hold(head)), spec)
	endless := b.register(t, egresstest.Start(t, egresstest.Endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1<<16), 0)),
		func(s *endpoints.Spec) { s.MaxResponseKB, s.ResponseTailKB = 1, 1 })
	p := b.work(t, nil)
	require.Equal(t, runs.ConnectionLost, b.only(t, broken).Outcome.Reason)
	require.Equal(t, runs.Timeout, b.only(t, stuck).Outcome.Reason)
	o := b.only(t, endless).Outcome
	require.Equal(t, runs.Succeeded, o.Status, "what never ends is read for 8 MiB and has no tail")
	require.Empty(t, o.Tail)
	require.Equal(t, int64(1<<10+8<<20), o.ResponseBytes)
	p.stop(t)
}

// TestConditionalRequestsSendStoredValidators counts the full responses of a target.
func TestConditionalRequestsSendStoredValidators(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var content atomic.Int64
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			r, ok := c.Next()
			if !ok {
				return
			}
			tag := `"v` + strconv.FormatInt(content.Load(), 10) + `"`
			answer := "HTTP/1.1 200 OK\r\nETag: " + tag + "\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\n\r\nok"
			if r.Header.Get("If-None-Match") == tag {
				answer = "HTTP/1.1 304 Not Modified\r\nETag: " + tag + "\r\n\r\n"
			}
			if !c.Write(answer) {
				return
			}
		}
	})
	e := b.register(t, target, func(s *endpoints.Spec) {
		s.Conditional = true
		s.SuccessRules = []endpoints.AnswerRule{{Type: "body", Op: "equals", Value: "ok"}}
	})
	p := b.work(t, nil)
	b.only(t, e)
	reasons := []runs.Reason{}
	again := func() runs.Outcome {
		before := query[int](t, b, timelyRuns)
		_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
		require.NoError(t, err)
		p.Wake(time.Now())
		b.awaitTimely(t, before+1)
		list, err := b.runs.List(t.Context(), runs.Filter{TenantID: tenant.TenantID, EndpointID: e.ID, Limit: 50})
		require.NoError(t, err)
		newest := list[0]
		for _, r := range list {
			if r.StartedAt.After(newest.StartedAt) {
				newest = r
			}
		}
		reasons = append(reasons, newest.Outcome.Reason)
		return newest.Outcome
	}
	o := again()
	require.Equal(t, runs.Succeeded, o.Status)
	require.Equal(t, 304, o.StatusCode)
	again()
	content.Add(1)
	again()
	again()
	// A change of the request drops the stored validators.
	_, _, err := b.service.Edit(t.Context(), tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.Headers = map[string]string{"Accept-Language": "de"}
		return s, nil
	})
	require.NoError(t, err)
	again()
	require.Equal(t, []runs.Reason{runs.NotModified, runs.NotModified, runs.HTTPStatus, runs.NotModified, runs.HTTPStatus}, reasons)
	p.stop(t)
	asked := target.Requests()
	require.NotContains(t, asked[0].Header, "If-None-Match")
	require.Equal(t, `"v0"`, asked[1].Header.Get("If-None-Match"))
	require.Equal(t, "Sat, 21 Nov 2026 10:00:00 GMT", asked[1].Header.Get("If-Modified-Since"))
	require.NotContains(t, asked[5].Header, "If-None-Match")
}

// TestValidatorsAreDroppedOnCrossHostRedirects redirects to another host after the validators are
// stored. That host could answer 304 for a document that was never read.
func TestValidatorsAreDroppedOnCrossHostRedirects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	there := egresstest.Start(t, func(c *egresstest.Conn) {
		for r, ok := c.Next(); ok; r, ok = c.Next() {
			answer := egresstest.OK("other")
			if r.Header.Get("If-Modified-Since") != "" {
				answer = "HTTP/1.1 304 Not Modified\r\n\r\n"
			}
			c.Write(answer)
		}
	})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for r, ok := c.Next(); ok; r, ok = c.Next() {
			answer := "HTTP/1.1 200 OK\r\nETag: \"v0\"\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\n\r\nok"
			if r.Header.Get("If-Modified-Since") != "" {
				answer = egresstest.Redirect("302 Found", there.URL())
			}
			c.Write(answer)
		}
	})
	e := b.register(t, target, func(s *endpoints.Spec) { s.Conditional, s.FollowRedirects = true, 1 })
	p := b.work(t, nil)
	b.only(t, e)
	_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	p.Wake(time.Now())
	b.awaitTimely(t, 2)
	p.stop(t)
	require.Equal(t, 2, query[int](t, b, "SELECT count(*) FROM runs WHERE reason_code = 'http_status'"))
	require.Len(t, there.Requests(), 1)
	require.NotContains(t, there.Requests()[0].Header, "If-None-Match")
	require.NotContains(t, there.Requests()[0].Header, "If-Modified-Since")
}

// TestAnUnrequested304IsJudgedByItsStatus answers an unconditional request with 304.
func TestAnUnrequested304IsJudgedByItsStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 304 Not Modified\r\n\r\n"))
	plain := b.register(t, target, nil)
	first := b.register(t, target, func(s *endpoints.Spec) { s.Conditional = true })
	p := b.work(t, nil)
	for _, e := range []*endpoints.Endpoint{plain, first} {
		o := b.only(t, e).Outcome
		require.Equal(t, runs.Failed, o.Status)
		require.Equal(t, runs.HTTPStatus, o.Reason)
	}
	p.stop(t)
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM validators"))
}

// TestATargetMayStopItsEndpoint has targets that ask for it, and those that may not or mean
// something else.
func TestATargetMayStopItsEndpoint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone := egresstest.Start(t, egresstest.Answer(egresstest.Status("410 Gone", "")))
	asks := egresstest.Start(t, egresstest.Answer("HTTP/1.1 200 OK\r\nRubato-Stop: moved \u202eto another house\r\nContent-Length: 0\r\n\r\n"))
	silent := egresstest.Start(t, egresstest.Answer("HTTP/1.1 503 Busy\r\nRubato-Stop:\r\nContent-Length: 0\r\n\r\n"))
	elsewhere := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", gone.URL())))
	within := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			r, ok := c.Next()
			if !ok {
				return
			}
			answer := egresstest.Redirect("302 Found", "/gone")
			if strings.HasSuffix(r.URI, "/gone") {
				answer = egresstest.Status("410 Gone", "")
			}
			if !c.Write(answer) {
				return
			}
		}
	})
	cases := []struct {
		target *egresstest.Target
		edit   func(*endpoints.Spec)
		reason string // empty: it goes on
		status runs.Status
	}{
		{gone, nil, "the target answered 410 (gone)", runs.Failed},
		{gone, func(s *endpoints.Spec) { s.Success = "2xx,410" }, "", runs.Succeeded},
		{asks, nil, "the target asked to stop: moved  to another house", runs.Succeeded},
		{silent, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 3 }, "the target asked to stop", runs.Failed},
		{elsewhere, redirects(1), "", runs.Failed},
		{within, redirects(1), "the target answered 410 (gone)", runs.Failed},
	}
	var list []*endpoints.Endpoint
	for _, tc := range cases {
		list = append(list, b.register(t, tc.target, tc.edit))
	}
	p := b.work(t, nil)
	for i, e := range list {
		run := b.only(t, e)
		require.Equal(t, cases[i].status, run.Outcome.Status, "%d: %s", i, run.Outcome.Error)
		state := b.state(t, e)
		if cases[i].reason == "" {
			require.Zero(t, state.PausedUntil, i)
			continue
		}
		require.Equal(t, cases[i].reason, state.PauseReason, i)
		require.Equal(t, "paused", string(state.Due.Source), i)
		id := [16]byte(e.ID)
		require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM decisions WHERE endpoint_id = $1 AND author = 'target' AND cause = 'stop'", id))
		require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM events WHERE endpoint_id = $1 AND kind = 'endpoint.paused'", id))
		require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM audit_log WHERE object_id = $1 AND actor = 'target' AND action = 'stop'", e.ID.String()))
	}
	// Resume brings it back: it runs, and is stopped again.
	_, err := b.service.Resume(t.Context(), tenant, list[0].ID)
	require.NoError(t, err)
	_, err = b.service.RunNow(t.Context(), tenant, list[0].ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	p.Wake(time.Now())
	b.await(t, 2, "SELECT count(*) FROM decisions WHERE endpoint_id = $1 AND cause = 'stop'", [16]byte(list[0].ID))
	p.stop(t)
}

// TestPhasesAddUpToTheTimeOfTheRun compares the sum of the phases with the duration of the run by
// the database's clock.
func TestPhasesAddUpToTheTimeOfTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const wait, transfer = 60 * time.Millisecond, 40 * time.Millisecond
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			if _, ok := c.Next(); !ok {
				return
			}
			<-time.After(wait)
			if !c.Write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab") {
				return
			}
			<-time.After(transfer)
			c.Write("cd")
		}
	})
	first := b.register(t, target, nil)
	p := b.work(t, nil)
	fresh := b.only(t, first)
	second := b.register(t, target, nil)
	p.Wake(time.Now())
	kept := b.only(t, second)
	p.stop(t)
	for name, run := range map[string]runs.Run{"Fresh": fresh, "Kept": kept} {
		ph := run.Outcome.Phases
		sum := ph.DNS + ph.Connect + ph.TLS + ph.Wait + ph.Transfer
		require.GreaterOrEqual(t, ph.Wait, wait, name)
		require.GreaterOrEqual(t, ph.Transfer, transfer-5*time.Millisecond, name)
		require.LessOrEqual(t, sum, run.FinishedAt.Sub(run.StartedAt)+25*time.Millisecond, "%s: a start may be committed 20 ms ahead", name)
	}
	require.Positive(t, fresh.Outcome.Phases.Connect)
	require.Zero(t, kept.Outcome.Phases.Connect, "the connection was kept")
	require.Len(t, target.PerRun(), 2)
	require.Equal(t, http.StatusOK, kept.Outcome.StatusCode)
}

// TestHiddenValidatorsAreNotKept: a validator is not stored if the endpoint's redaction rules hide
// its header.
func TestHiddenValidatorsAreNotKept(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]endpoints.RedactRule{
		"Header":  {{Header: "etag"}, {Header: "Last-Modified"}},
		"Pattern": {{Pattern: "id-[0-9]+|Sat, [^ ]+"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			target := egresstest.Start(t, egresstest.Answer(
				"HTTP/1.1 200 OK\r\nETag: \"id-4711\"\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\n\r\nok"))
			e := b.register(t, target, func(s *endpoints.Spec) { s.Conditional, s.Redact = true, rules })
			p := b.work(t, nil)
			require.Equal(t, runs.Succeeded, b.only(t, e).Outcome.Status)
			p.stop(t)
			require.Zero(t, query[int](t, b, "SELECT count(*) FROM validators WHERE etag || last_modified <> ''"))
		})
	}
}
