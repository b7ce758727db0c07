package openai_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
	keystore "rubato/internal/store/keys"
)

// reset is a service that accepts the request, sends a part of an answer, and resets the
// connection.
func reset(part string) openaitest.Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte(part))
		if tcp, is := conn.(*net.TCPConn); is && part == "" {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// TestAcceptedRequestIsChargedDespiteFailure: a request that fails after the service has accepted
// it is charged in full, because the model may have worked.
func TestAcceptedRequestIsChargedDespiteFailure(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]openaitest.Answer{
		"Reset": reset(""), "HangUp": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"HalfAHead":     reset("HTTP/1.1 200 OK\r\nContent-Ty"),
		"HalfABody":     reset("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{\"id\":\"x\",\"choices\":[{\"mess"),
		"NoHTTP":        reset("what?\r\n\r\n"),
		"500":           openaitest.Status(http.StatusInternalServerError, openaitest.Problem("server_error", "oops")),
		"504":           openaitest.Status(http.StatusGatewayTimeout, "upstream timed out"),
		"503AndWhen":    openaitest.Status(http.StatusServiceUnavailable, "", "Retry-After", "1"),
		"Page":          openaitest.Raw("<html>"),
		"Redirect":      openaitest.Status(http.StatusFound, "", "Location", "https://example.com/"),
		"NothingInTime": openaitest.Hang(),
		"TooMuch":       openaitest.Status(http.StatusOK, "", "Content-Length", "1000000"),
		"TooMuchOfA500": openaitest.Status(http.StatusInternalServerError, "", "Content-Length", "1000000"),
		"NoChoiceAtAll": openaitest.Empty(),
		"ErrorWithA200": openaitest.Raw(`{"error":{"message":"no such model","type":"x"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(answer), func(c *openai.Config) { c.Timeout = 2 * time.Second })
			whole := b.budget.left
			_, err := b.advise(t)
			require.Error(t, err)
			require.Len(t, b.service.Calls(), 1)
			require.Positive(t, b.budget.most)
			require.Equal(t, b.budget.most, whole-b.budget.left, "what was reserved is spent")
			require.Equal(t, b.budget.most, b.desk.tokens(), "and the session says so")
			require.Zero(t, b.budget.held)
		})
	}
}

// TestRefusedOrUnsentRequestIsFree: nothing is charged if no model can have worked.
func TestRefusedOrUnsentRequestIsFree(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := "http://" + listener.Addr().String() + "/v1"
	require.NoError(t, listener.Close())
	for name, c := range map[string]struct {
		answer openaitest.Answer
		url    string
	}{
		"400":      {openaitest.Status(http.StatusBadRequest, openaitest.Problem("invalid_request_error", "no")), ""},
		"401":      {openaitest.Status(http.StatusUnauthorized, openaitest.Problem("invalid_api_key", "no")), ""},
		"404Page":  {openaitest.Status(http.StatusNotFound, "<html>"), ""},
		"413Large": {openaitest.Status(http.StatusRequestEntityTooLarge, "", "Content-Length", "1000000"), ""},
		"429":      {openaitest.RateLimited("1"), ""},
		"Nobody":   {openaitest.Empty(), nobody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(c.answer), func(config *openai.Config) {
				if c.url != "" {
					config.BaseURL = c.url
				}
			})
			whole := b.budget.left
			for range 5 { // The last of them rest.
				_, err := b.advise(t)
				require.Error(t, err)
			}
			require.Positive(t, b.budget.most)
			require.Equal(t, whole, b.budget.left)
			require.Zero(t, b.desk.tokens())
		})
	}
}

// TestStoppingPlannerIsChargedForOpenRequests stops planners during requests. No session is
// recorded, but the reservation is charged.
func TestStoppingPlannerIsChargedForOpenRequests(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	w := newWorld(t, openaitest.Always(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	w.register(t, first, nil)
	w.run(t, func(endpoints.ID) reply { return reply{code: 503, body: "{}"} })
	spent := int64(0)
	for range 2 {
		stop := w.plan(t)
		<-asked
		stop()
		now := rows[int64](t, w, "SELECT tokens FROM planner_spend WHERE tenant_id = $1 AND endpoint_id = $2", keystore.DefaultTenant, [16]byte{})[0]
		require.Greater(t, now, spent)
		spent = now
	}
	require.Empty(t, rows[string](t, w, "SELECT id::text FROM planner_sessions"))
}

// TestCanceledSessionIsCharged cancels one session during its request.
func TestCanceledSessionIsCharged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := setup(t, openaitest.Always(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	whole := b.budget.left
	_, err := b.advisor.Advise(ctx, aCase(), b.desk)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, b.budget.most, whole-b.budget.left)
	require.Equal(t, b.budget.most, b.desk.tokens())
}
