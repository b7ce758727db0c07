package request

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

func rule(t *testing.T, text string) endpoints.SuccessRule {
	t.Helper()
	r, err := endpoints.ParseSuccess(text)
	require.NoError(t, err)
	return r
}

// TestAFailedCallIsClassifiedByItsReason has every reason of a call, and what ended its context.
func TestAFailedCallIsClassifiedByItsReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason egress.Reason
		cause  error
		status runs.Status
		want   runs.Reason
	}{
		"Timeout":              {egress.Timeout, nil, runs.TimedOut, runs.Timeout},
		"DNS":                  {egress.DNSError, nil, runs.Failed, runs.DNSError},
		"Connect":              {egress.ConnectError, nil, runs.Failed, runs.ConnectError},
		"TLS":                  {egress.TLSError, nil, runs.Failed, runs.TLSError},
		"Lost":                 {egress.ConnectionLost, nil, runs.Failed, runs.ConnectionLost},
		"Protocol":             {egress.ProtocolError, nil, runs.Failed, runs.ProtocolError},
		"TooLarge":             {egress.ResponseTooLarge, nil, runs.Failed, runs.ResponseTooLarge},
		"Denied":               {egress.EgressDenied, nil, runs.Failed, runs.EgressDenied},
		"RedirectLimit":        {egress.RedirectLimit, nil, runs.Failed, runs.RedirectLimit},
		"RedirectDenied":       {egress.RedirectDenied, nil, runs.Failed, runs.RedirectDenied},
		"Shutdown":             {egress.Canceled, ErrShutdown, runs.Lost, runs.Shutdown},
		"CanceledByUser":       {egress.Canceled, &CanceledError{Author: "ada"}, runs.Canceled, runs.CanceledByUser},
		"DeadlineOfExecution":  {egress.Canceled, context.DeadlineExceeded, runs.TimedOut, runs.Timeout},
		"ReasonThatWeKnowNoOf": {egress.Reason("new"), nil, runs.Lost, runs.InternalError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tc.cause != nil {
				cancel(tc.cause)
			}
			for _, sent := range []bool{false, true} {
				err := &egress.Error{Reason: tc.reason, Sent: sent, Phases: egress.Phases{DNS: time.Second}}
				o, _ := runSecrets{}.classify(ctx, &Target{Spec: &endpoints.Spec{}, Success: rule(t, "2xx")}, Exchange{Err: err, At: start})
				require.Equal(t, tc.status, o.Status)
				require.Equal(t, tc.want, o.Reason)
				require.Equal(t, sent, o.MaybeSent)
				require.Equal(t, time.Second, o.Phases.DNS)
				require.NotEmpty(t, o.Error)
				require.Zero(t, o.StatusCode)
			}
		})
	}
}

func TestTheReasonsOfACallAreReasonsOfARun(t *testing.T) {
	t.Parallel()
	known := map[runs.Reason]bool{}
	for _, r := range runs.Reasons() {
		known[r] = true
	}
	for _, r := range []egress.Reason{
		egress.DNSError, egress.ConnectError, egress.TLSError, egress.Timeout, egress.EgressDenied, egress.ProtocolError, egress.ResponseTooLarge,
		egress.ConnectionLost, egress.RedirectLimit, egress.RedirectDenied,
	} {
		require.True(t, known[runs.Reason(r)], r)
	}
}

func TestAnAnswerIsClassifiedByTheRuleOfItsEndpoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule       string
		code       int
		header     string // Retry-After
		status     runs.Status
		retryAfter time.Time
	}{
		{"2xx", 200, "", runs.Succeeded, time.Time{}},
		{"2xx", 204, "", runs.Succeeded, time.Time{}},
		{"2xx", 301, "", runs.Failed, time.Time{}},
		{"2xx,404", 404, "", runs.Succeeded, time.Time{}},
		{"2xx", 404, "", runs.Failed, time.Time{}},
		{"204", 200, "", runs.Failed, time.Time{}},
		{"2xx", 503, "120", runs.Failed, start.Add(2 * time.Minute)},
		{"2xx", 429, "1", runs.Failed, start.Add(time.Second)},
		{"2xx", 503, "", runs.Failed, time.Time{}},
		{"2xx", 503, "soon", runs.Failed, time.Time{}},
		{"2xx", 500, "120", runs.Failed, time.Time{}},
		{"2xx", 200, "120", runs.Succeeded, time.Time{}},
		{"2xx,503", 503, "120", runs.Succeeded, start.Add(2 * time.Minute)},
	} {
		header := http.Header{"Content-Type": {"text/plain"}}
		if tc.header != "" {
			header.Set("Retry-After", tc.header)
		}
		answer := egress.Response{StatusCode: tc.code, Header: header, Body: []byte("body"), BytesRead: 4, Truncated: true, Phases: egress.Phases{Wait: time.Second}}
		got, _ := runSecrets{}.classify(t.Context(), &Target{Spec: &endpoints.Spec{}, Success: rule(t, tc.rule)}, Exchange{Answer: answer, At: start})
		want := runs.Outcome{
			Status: tc.status, Reason: runs.HTTPStatus, MaybeSent: true, StatusCode: tc.code, Phases: runs.Phases{Wait: time.Second},
			ResponseBytes: 4, Truncated: true, ContentType: "text/plain", Body: []byte("body"),
			BodyDigest: runs.Tagged(runs.Digest([]byte("body")), 0), RetryAfter: tc.retryAfter,
		}
		require.Empty(t, cmp.Diff(want, got), "%d under %q", tc.code, tc.rule)
	}
}

// TestRequestsCarryRunHeaders compares the headers of the attempts for one due time.
func TestRequestsCarryRunHeaders(t *testing.T) {
	t.Parallel()
	slot := time.Date(2030, 5, 6, 7, 8, 9, 120_000_000, time.FixedZone("", 7200))
	build := func(attempt, infra int, token int64) egress.Request {
		spec := endpoints.Defaults()
		spec.URL, spec.Method, spec.Body, spec.FollowRedirects = "http://target.example/x", "POST", "payload", 3
		spec.Timeout = 5 * time.Second
		endpoint := [16]byte{7}
		return request(&Run{
			ID: runs.NewID(slot, endpoint, attempt, infra), EndpointID: endpoint, Slot: slot, Attempt: attempt, InfraAttempt: infra, Fence: token,
			Target: &Target{Spec: &spec, URL: spec.URL, Header: http.Header{"X-One": {"1"}}},
		})
	}
	first := build(1, 0, 41)
	require.Equal(t, runs.NewID(slot, [16]byte{7}, 1, 0).String(), first.Meta.Get("Rubato-Run-Id"))
	require.Equal(t, "1", first.Meta.Get("Rubato-Attempt"))
	require.Equal(t, "2030-05-06T05:08:09.120Z", first.Meta.Get("Rubato-Scheduled-For"))
	require.Equal(t, "41", first.Meta.Get("Rubato-Fence"))
	require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`, first.Meta.Get("Traceparent"))
	require.Equal(t, strings.ReplaceAll(strings.TrimPrefix(first.Meta.Get("Rubato-Run-Id"), "run_"), "-", ""), first.Meta.Get("Traceparent")[3:35])
	require.NotEqual(t, strings.Repeat("0", 16), first.Meta.Get("Traceparent")[36:52], "a span of zeros is invalid")
	require.Equal(t, "POST", first.Method)
	require.Equal(t, "http://target.example/x", first.URL)
	require.Equal(t, "payload", string(first.Body))
	require.Equal(t, "1", first.Header.Get("X-One"))
	require.Equal(t, 5*time.Second, first.Timeout)
	require.Equal(t, int64(100<<10), first.MaxBody)
	require.Equal(t, 3, first.MaxRedirects)

	for n, tries := range [][2]int{{2, 0}, {3, 0}, {1, 1}, {1, 3}, {2, 1}} {
		again := build(tries[0], tries[1], 42+int64(n))
		require.Equal(t, first.Meta.Get("Idempotency-Key"), again.Meta.Get("Idempotency-Key"), "one key for every attempt")
		require.NotEqual(t, first.Meta.Get("Rubato-Run-Id"), again.Meta.Get("Rubato-Run-Id"))
	}
}
