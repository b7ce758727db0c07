package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/callbacks"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
	"rubato/internal/runs"
)

// reporting ends the run of every token but one that begins with x.
type reporting struct{ reports *[]callbacks.Report }

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

func callbackToken(fill byte) string {
	token := make([]byte, 96)
	for i := range token {
		token[i] = fill
	}
	return string(token)
}
