package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/callbacks"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
	"rubato/internal/runs"
)

// reporting ends the run of every token but one that begins with x.
type reporting struct{ reports *[]callbacks.Report }

func (f reporting) Known(_ context.Context, token string) (bool, error) { return token[0] != 'x', nil }

func (f reporting) Report(_ context.Context, token string, r callbacks.Report) (callbacks.Result, error) {
	if token[0] == 'x' {
		return callbacks.Result{}, errs.New(errs.NotFound, "callback_unknown", "no")
	}
	if f.reports != nil {
		*f.reports = append(*f.reports, r)
	}
	return callbacks.Result{RunID: samples()[0].ID, Status: runs.Status(r.Status)}, nil
}

// TestAReportIsPassedOnAsItCame reports a result, which a signature may cover byte by byte.
func TestAReportIsPassedOnAsItCame(t *testing.T) {
	t.Parallel()
	var reports []callbacks.Report
	s := newServiceWith(t, httpapi.Config{Callbacks: reporting{&reports}})
	body := "{ \"status\":\"succeeded\", \"body\": [1, {\"a\": null}] }"
	s.call("POST", "/v1/callbacks/"+callbackToken('t'), body, withKey(""), withHeader("Webhook-Id", "msg_1")).is(http.StatusOK)
	require.Len(t, reports, 1)
	require.Equal(t, body, string(reports[0].Raw))
	require.Equal(t, "msg_1", reports[0].Header.Get("Webhook-Id"))
	require.JSONEq(t, `[1,{"a":null}]`, string(reports[0].Body))
	refused := s.call("POST", "/v1/callbacks/"+callbackToken('t'), `{"status":"progress","body":7,"error":"no"}`, withKey(""))
	require.Equal(t, []string{"body body_without_end", "error error_without_failure"}, refused.complaints())
	for _, status := range []string{`"FAILED"`, `"error"`, `"failure"`, `""`} {
		unknown := s.call("POST", "/v1/callbacks/"+callbackToken('t'), `{"status":`+status+`,"error":"no room"}`, withKey(""))
		require.Equal(t, http.StatusUnprocessableEntity, unknown.status, "%s", unknown.body)
		require.Equal(t, []string{"status invalid_value"}, unknown.complaints(), status)
	}
	require.Len(t, reports, 1)
}

// TestGuessesOfCallbackTokensAreThrottled guesses until the address has to wait.
func TestGuessesOfCallbackTokensAreThrottled(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for range 10 {
		require.Equal(t, http.StatusNotFound, s.call("POST", "/v1/callbacks/"+callbackToken('x'), `{"status":"succeeded"}`, withKey("")).status)
	}
	throttled := s.call("POST", "/v1/callbacks/"+callbackToken('x'), `{"status":"succeeded"}`, withKey(""))
	require.Equal(t, http.StatusTooManyRequests, throttled.status)
	require.NotEmpty(t, throttled.header.Get("Retry-After"))
	require.NotContains(t, s.logs.String(), callbackToken('x'), "a token is a secret")
}

// slowTokens is reporting on a slow database: look-ups of tokens wait for goOn.
type slowTokens struct {
	reporting

	asked chan struct{}
	goOn  chan struct{}
}

func (f slowTokens) Known(ctx context.Context, token string) (bool, error) {
	f.asked <- struct{}{}
	<-f.goOn
	return f.reporting.Known(ctx, token)
}

// TestLookUpsForThrottledClientsAreBounded has six reports of a throttled address while the
// database is slow. Four are looked up, and the others are throttled after their wait. A genuine
// token passes.
func TestLookUpsForThrottledClientsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := slowTokens{asked: make(chan struct{}, 9), goOn: make(chan struct{})}
		s := newServiceWith(t, httpapi.Config{Callbacks: slow})
		report := func(fill byte) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/callbacks/"+callbackToken(fill), strings.NewReader(`{"status":"succeeded"}`))
			r.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			s.server.ServeHTTP(answer, r)
			return answer.Code
		}
		for range 10 {
			require.Equal(t, http.StatusNotFound, report('x'))
		}
		statuses := make(chan int, 6)
		for i := range 6 {
			go func() { statuses <- report("ttttxx"[i]) }()
			synctest.Wait()
		}
		require.Len(t, slow.asked, 4)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, http.StatusTooManyRequests, <-statuses)
		require.Equal(t, http.StatusTooManyRequests, <-statuses)
		close(slow.goOn)
		for range 4 {
			require.Equal(t, http.StatusOK, <-statuses)
		}
		require.Equal(t, http.StatusTooManyRequests, report('x'))
		require.Equal(t, http.StatusOK, report('t'))
	})
}

func callbackToken(fill byte) string {
	token := make([]byte, 96)
	for i := range token {
		token[i] = fill
	}
	return string(token)
}
