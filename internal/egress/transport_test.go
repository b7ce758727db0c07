package egress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

// shapes are requests of every kind that a transport might take for repeatable.
func shapes() map[string]Request {
	key := http.Header{"Idempotency-Key": {"k1"}, "Rubato-Run-Id": {"run_lost"}}
	shapes := make(map[string]Request)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		shapes[method] = Request{Method: method, Meta: http.Header{"Rubato-Run-Id": {"run_lost"}}}
		shapes[method+"WithKey"] = Request{Method: method, Meta: key}
		if method != "HEAD" {
			shapes[method+"WithBody"] = Request{Method: method, Body: []byte("payload"), Meta: key}
		}
		user := http.Header{"X-Idempotency-Key": {"theirs"}}
		shapes[method+"WithUsersKey"] = Request{Method: method, Header: user, Meta: key}
	}
	return shapes
}

func TestExactlyOneRequestIsOnTheWire(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		for kept := range 2 {
			t.Run(fmt.Sprintf("%sReadThenClosedAsRequest%d", name, kept+1), func(t *testing.T) {
				t.Parallel()
				target := egresstest.Start(t, egresstest.CloseAfterReading(kept))
				loseOne(t, target, shape, kept)
				require.Equal(t, 1, target.PerRun()["run_lost"])
			})
			t.Run(fmt.Sprintf("%sClosedOnArrivalAsRequest%d", name, kept+1), func(t *testing.T) {
				t.Parallel()
				target := egresstest.Start(t, egresstest.CloseOnArrival(kept))
				loseOne(t, target, shape, kept)
				require.Zero(t, target.PerRun()["run_lost"])
			})
		}
	}
}

// loseOne makes kept good calls and one that target cuts off. All of them must have used one
// connection: a repetition would have needed a second.
func loseOne(t *testing.T, target *egresstest.Target, shape Request, kept int) {
	t.Helper()
	client := setup(t)
	for range kept {
		_, err := client.Do(t.Context(), get(target.URL()))
		require.NoError(t, err)
	}
	shape.URL = target.URL() + "/lost"
	e, _ := fails(t, client, shape)
	require.Equal(t, ConnectionLost, e.Reason)
	require.True(t, e.Sent)
	require.Equal(t, 1, target.Conns())
}

func TestRequestThatNeverLeftGoesOutOnAFreshConnection(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 204 No Content\r\n\r\n"))
			client := setup(t)
			blockIdleConnection(t, client, target.URL())

			shape.URL = target.URL()
			response, err := client.Do(t.Context(), shape)
			require.NoError(t, err)
			require.Equal(t, http.StatusNoContent, response.StatusCode)
			require.Equal(t, 1, target.PerRun()["run_lost"])
			require.Equal(t, 2, target.Conns())
		})
	}
}

// blockIdleConnection leaves a connection to url in the pool that takes no byte any more, as if the
// target had just reset it.
func blockIdleConnection(t *testing.T, client *Client, url string) {
	t.Helper()
	first, err := client.admit(client.usual.policy, get(url))
	require.NoError(t, err)
	x := &exchange{client: client, transport: client.usual, hop: first}
	answer, at, err := x.send(t.Context())
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	at.conn.seal(at.writtenBefore)
}

func TestConnectionClosedWhileIdleCostsNothing(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Once(egresstest.OK("ok")))
	client := setup(t)
	for i := range 50 {
		request := get(target.URL())
		request.Meta = http.Header{"Rubato-Run-Id": {fmt.Sprint("run", i)}}
		_, err := client.Do(t.Context(), request)
		// the close may cross the request on its way; that is honest, and not repeated
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, ConnectionLost, e.Reason)
			require.True(t, e.Sent)
		}
	}
	for run, count := range target.PerRun() {
		require.Equal(t, 1, count, run)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for name, limit := range map[string]int64{"WholeBody": 1000, "TruncatedBody": 2, "NoBody": 0} {
			t.Run(method+name, func(t *testing.T) {
				t.Parallel()
				target := egresstest.Start(t, egresstest.Answer(egresstest.OK("a body")))
				client := setup(t)
				for range 20 {
					_, err := client.Do(t.Context(), Request{Method: method, URL: target.URL(), MaxBody: limit})
					require.NoError(t, err)
				}
				require.Equal(t, 1, target.Conns())
			})
		}
	}
}

func TestConnectionsPerHostAreBounded(t *testing.T) {
	t.Parallel()
	var serving, exceeded atomic.Int64
	all := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(all) })
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for _, ok := c.Next(); ok; _, ok = c.Next() {
			if serving.Add(1) > 2 {
				exceeded.Add(1)
			}
			<-all
			serving.Add(-1)
			c.Write(egresstest.OK("ok"))
		}
	})
	defer goOn()
	hostSlots := newHostSlots(2)
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, HostSlots: hostSlots.of}, nil)
	errs := make(chan error, 100)
	for range cap(errs) {
		go func() {
			_, err := client.Do(t.Context(), get(target.URL()))
			errs <- err
		}()
	}
	awaitWaiting(t, hostSlots, &serving, 2, cap(errs))
	goOn()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Zero(t, exceeded.Load())
	require.Len(t, target.Requests(), cap(errs))
}

func TestWireFormat(t *testing.T) {
	t.Parallel()
	user := http.Header{"X-Api-Key": {"abc"}, "accept-encoding": {"identity"}}
	meta := http.Header{"Idempotency-Key": {"k1"}, "Rubato-Run-Id": {"run_1"}, "Traceparent": {"00-1-2-01"}}
	common := "Accept-Encoding: identity\r\nIdempotency-Key: k1\r\nRubato-Run-Id: run_1\r\nTraceparent: 00-1-2-01\r\nX-Api-Key: abc\r\n\r\n"
	tests := map[string]struct{ method, body, want string }{
		"Get":         {"GET", "", "GET /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\n"},
		"Head":        {"HEAD", "", "HEAD /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\n"},
		"Delete":      {"DELETE", "", "DELETE /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\n"},
		"Options":     {"OPTIONS", "", "OPTIONS /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\n"},
		"EmptyPost":   {"POST", "", "POST /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\nContent-Length: 0\r\n"},
		"EmptyPut":    {"PUT", "", "PUT /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\nContent-Length: 0\r\n"},
		"Post":        {"POST", "xyz", "POST /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\nContent-Length: 3\r\n"},
		"GetWithBody": {"GET", "xyz", "GET /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\nContent-Length: 3\r\n"},
		"SmugglingBody": {
			"POST", "0\r\n\r\nGET /admin HTTP/1.1\r\n\r\n",
			"POST /p?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: Rubato\r\nContent-Length: 28\r\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 204 No Content\r\n\r\n"))
			_, err := setup(t).Do(t.Context(), Request{
				Method: test.method, URL: target.URL() + "/p?q=1#fragment", Header: user, Meta: meta, Body: []byte(test.body),
			})
			require.NoError(t, err)
			host := strings.TrimPrefix(target.URL(), "http://")
			want := strings.Replace(test.want, "HOST", host, 1) + common + test.body
			require.Len(t, target.Requests(), 1)
			require.Empty(t, cmp.Diff(want, target.Requests()[0].Raw))
		})
	}
}

func TestMetaWinsOverUserHeaders(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("")))
	request := get(target.URL())
	request.Header = http.Header{"user-agent": {"mine"}, "X-Both": {"user"}}
	request.Meta = http.Header{"X-Both": {"meta"}}
	_, err := setup(t).Do(t.Context(), request)
	require.NoError(t, err)
	sent := target.Requests()[0].Header
	require.Equal(t, "mine", sent.Get("User-Agent"))
	require.Equal(t, []string{"meta"}, sent.Values("X-Both"))
}

func TestRequestsThatBreakRulesNeverLeave(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("")))
	client := setup(t)
	tests := map[string]Request{
		"Connect":         {Method: "CONNECT", URL: target.URL()},
		"LowerCase":       {Method: "get", URL: target.URL()},
		"MethodInjection": {Method: "GET / HTTP/1.1\r\nX: y\r\n", URL: target.URL()},
		"HeaderInjection": {Method: "GET", URL: target.URL(), Header: http.Header{"A": {"x\r\nB: y"}}},
		"ReservedHeader":  {Method: "GET", URL: target.URL(), Header: http.Header{"Rubato-Fence": {"9"}}},
		"HostHeader":      {Method: "GET", URL: target.URL(), Header: http.Header{"Host": {"other"}}},
		"Userinfo":        {Method: "GET", URL: strings.Replace(target.URL(), "//", "//u:p@", 1)},
	}
	for name, request := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := fails(t, client, request)
			require.Equal(t, EgressDenied, e.Reason)
			require.False(t, e.Sent)
			require.Zero(t, target.Conns())
		})
	}
}
