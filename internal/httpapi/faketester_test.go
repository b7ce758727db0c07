package httpapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi"
	"rubato/internal/runs"
)

// tester answers tests without a request. If gate is set, a test waits for it.
type tester struct {
	store *memory
	gate  chan struct{}
	began chan struct{}
}

func (f tester) Test(_ context.Context, _ endpoints.Actor, e *endpoints.Endpoint) (runs.TestResult, error) {
	if err := f.store.err; err != nil {
		return runs.TestResult{}, err
	}
	if f.gate != nil {
		f.began <- struct{}{}
		<-f.gate
	}
	return runs.TestResult{
		ID: runs.NewID(time.Unix(0, 0), e.ID, 1, 0), SentAt: time.Unix(0, 0), BrokenRule: 0,
		Outcome: runs.Outcome{Status: runs.Failed, Reason: runs.SuccessRuleFailed, StatusCode: 200, Body: []byte("\xff\x00"), Error: "no"},
		Answer:  runs.Header{"Content-Type": {"text/plain"}},
		Request: &runs.SentRequest{Method: e.Spec.Method, URL: e.Spec.URL, Header: runs.Header{"Rubato-Test": {"true"}}, Body: []byte("sent"), Cut: true},
	}, nil
}

var _ httpapi.Tester = tester{}

func TestATestReturnsRequestAndResponse(t *testing.T) {
	t.Parallel()
	s := newService(t)
	got := s.call("POST", "/v1/endpoints/"+s.register(minimal)+"/test", "").is(http.StatusOK)
	require.Equal(t, "success_rule_failed", got["reasonCode"])
	require.EqualValues(t, 0, got["brokenRule"])
	require.Equal(t, "/wA=", got["bodyBase64"])
	require.NotContains(t, got, "body")
	sent := got["request"].(map[string]any) //nolint:forcetypeassert // The contract was checked.
	require.Equal(t, "https://api.example.com/", sent["url"])
	require.Equal(t, true, sent["truncated"])

	writes := s.store.writes
	require.Equal(t, []string{"name required"}, s.call("POST", "/v1/test", `{"name":"","url":"https://a.example/","baselineIntervalMs":1000}`).complaints())
	require.Equal(t, http.StatusOK, s.call("POST", "/v1/test", minimal).status)
	require.Equal(t, writes, s.store.writes, "nothing is stored")
}

// TestConcurrentTestsOfATenantAreBounded: the limit of concurrent tests is per tenant and not per
// key. A slot is free again when a test has ended.
func TestConcurrentTestsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	gate, began := make(chan struct{}), make(chan struct{})
	s := newServiceWith(t, httpapi.Config{Tester: tester{newMemory(), gate, began}})
	ended := make(chan int, 8)
	for range 8 {
		go func() { ended <- s.call("POST", "/v1/test", minimal).status }()
		<-began
	}
	a := s.call("POST", "/v1/test", minimal, withKey(adminKey))
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "too_many_tests", a.problem().Code)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	go func() { ended <- s.call("POST", "/v1/test", minimal, withKey(otherKey)).status }()
	<-began
	close(gate)
	for range 9 {
		require.Equal(t, http.StatusOK, <-ended)
	}
	go func() { <-began }()
	require.Equal(t, http.StatusOK, s.call("POST", "/v1/test", minimal).status)
}
