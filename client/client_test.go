package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// stub answers every request with one answer, and keeps the request.
func stub(t *testing.T, status int, media, body string) (*client.ClientWithResponses, *http.Request) {
	t.Helper()
	seen := new(http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = *r
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // The test detects a short answer.
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "rbt_key")
	require.NoError(t, err)
	return c, seen
}

func TestNewSendsTheKey(t *testing.T) {
	t.Parallel()
	c, seen := stub(t, http.StatusAccepted, "application/json", `{"runId":"run_1","scheduledFor":"2026-11-21T10:00:00Z"}`)
	answer, err := c.RunEndpointWithResponse(t.Context(), "ep_1", client.OneOffRun{})
	require.NoError(t, err)
	require.NoError(t, client.Refused(answer.HTTPResponse, answer.Body))
	require.Equal(t, "run_1", answer.JSON202.RunID)
	require.Equal(t, "Bearer rbt_key", seen.Header.Get("Authorization"))
	require.Equal(t, "/v1/endpoints/ep_1/run", seen.URL.Path)
}

func TestNewRefusesBadURLs(t *testing.T) {
	t.Parallel()
	c, err := client.New("http://[::1", "k")
	if err == nil { // The URL is parsed when it is first used.
		_, err = c.GetHealthWithResponse(t.Context())
	}
	require.Error(t, err)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	c, _ := stub(t, http.StatusUnprocessableEntity, "application/problem+json",
		`{"type":"about:blank","title":"Unprocessable Entity","status":422,"code":"invalid_fields","detail":"see errors",
		"errors":[{"field":"name","code":"required","message":"must not be empty"}]}`)
	answer, err := c.CreateEndpointWithResponse(t.Context(), client.EndpointSpec{BaselineIntervalMs: new(int64(1000))})
	require.NoError(t, err)
	err = client.Refused(answer.HTTPResponse, answer.Body)
	problem, ok := errors.AsType[*client.Problem](err)
	require.True(t, ok)
	require.Equal(t, "invalid_fields", problem.Code)
	require.EqualError(t, err, "see errors (422 invalid_fields)\n  name: must not be empty")

	for _, body := range []string{"<html>", "{}", ""} {
		c, _ = stub(t, http.StatusBadGateway, "text/html", body)
		health, err := c.GetHealthWithResponse(t.Context())
		require.NoError(t, err)
		problem, ok = errors.AsType[*client.Problem](client.Refused(health.HTTPResponse, health.Body))
		require.True(t, ok)
		require.Equal(t, "unknown", problem.Code)
		require.EqualValues(t, http.StatusBadGateway, problem.Status)
	}
}

// Followed, it would become a GET that is answered with a list, and nothing would be created.
func TestNewFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
	}))
	defer server.Close()
	c, err := client.New(server.URL, "rbt_key")
	require.NoError(t, err)

	_, err = c.CreateEndpointWithResponse(t.Context(), client.EndpointSpec{BaselineIntervalMs: new(int64(1000))})

	require.ErrorContains(t, err, "the server redirects to "+server.URL+"/elsewhere, which is not followed")
	require.Equal(t, []string{"POST /v1/endpoints"}, asked)

	require.Error(t, client.Refused(&http.Response{StatusCode: http.StatusFound}, nil), "a client of one's own may hand it on")
}

func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"nextRunAt":"2026-11-21T10:01:00Z","source":"baseline-interval","steps":[]}`)
	}))
	defer server.Close()

	c, err := client.New(server.URL, "rbt_key")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.ExplainWithResponse(context.Background(), client.ExplainInput{BaselineIntervalMs: new(int64(60_000))})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Refused(answer.HTTPResponse, answer.Body); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.JSON200.NextRunAt.Format("15:04:05"), answer.JSON200.Source)
	// Output: 10:01:00 baseline-interval
}

// A request with a lost answer is retried under the same key and executed once.
func ExampleWithIdempotencyKey() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"runId":"run_of_%s","scheduledFor":"2026-11-21T10:00:00Z"}`, r.Header.Get("Idempotency-Key"))
	}))
	defer server.Close()
	c, err := client.New(server.URL, "rbt_key")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.RunEndpointWithResponse(context.Background(), "ep_1", client.OneOffRun{}, client.WithIdempotencyKey("deploy-42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.JSON202.RunID)
	// Output: run_of_deploy-42
}
