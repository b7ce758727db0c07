package egress

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"rubato/internal/egress/egresstest"
)

// secured returns the TLS configuration of a target, and a client that trusts it.
func secured(t *testing.T, cfg Config) (*tls.Config, *Client) {
	t.Helper()
	certificate, roots := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	cfg.Rules.Allow = loopback()
	client := newClient(cfg, nil, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots})
	t.Cleanup(client.Close)
	return serving(certificate), client
}

// ways returns the ways in which a target may end an HTTP/2 request that it has read or not, with
// the reason of the error.
func ways() map[string]struct {
	end    func(c *egresstest.H2Conn, stream uint32)
	reason Reason
} {
	reset := func(code http2.ErrCode) func(*egresstest.H2Conn, uint32) {
		return func(c *egresstest.H2Conn, stream uint32) {
			_ = c.WriteRSTStream(stream, code)
			c.AwaitHangup()
		}
	}
	away := func(last uint32, code http2.ErrCode) func(*egresstest.H2Conn, uint32) {
		return func(c *egresstest.H2Conn, stream uint32) {
			_ = c.WriteGoAway(min(last, stream), code, []byte("\x1b[31mgo\r\naway"))
			if last >= stream {
				return // The connection closes without the answer that was promised.
			}
			c.AwaitHangup()
		}
	}
	return map[string]struct {
		end    func(c *egresstest.H2Conn, stream uint32)
		reason Reason
	}{
		"Refused":           {reset(http2.ErrCodeRefusedStream), ConnectionLost},
		"Canceled":          {reset(http2.ErrCodeCancel), ConnectionLost},
		"EnhanceYourCalm":   {reset(http2.ErrCodeEnhanceYourCalm), ConnectionLost},
		"InternalError":     {reset(http2.ErrCodeInternal), ConnectionLost},
		"WantsHTTP1":        {reset(http2.ErrCodeHTTP11Required), ConnectionLost},
		"GoAwayUnseen":      {away(0, http2.ErrCodeNo), ConnectionLost},
		"GoAwayWithError":   {away(0, http2.ErrCodeProtocol), ConnectionLost},
		"GoAwaySeenThenEnd": {away(1<<31-1, http2.ErrCodeNo), ConnectionLost},
		"Closed":            {func(*egresstest.H2Conn, uint32) {}, ConnectionLost},
		"ClosedInHeader": {func(c *egresstest.H2Conn, stream uint32) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block("200", nil)})
		}, ConnectionLost},
	}
}

func TestExactlyOneRequestOverHTTP2(t *testing.T) {
	t.Parallel()
	// One failure says enough: each of the others might wait for its timeout.
	var broken atomic.Bool
	for way, lost := range ways() {
		for name, shape := range shapes() {
			for kept := range 2 {
				t.Run(fmt.Sprintf("%s%sAsRequest%d", way, name, kept+1), func(t *testing.T) {
					t.Parallel()
					if broken.Load() {
						return
					}
					defer func() { broken.CompareAndSwap(false, t.Failed()) }()
					server, client := secured(t, Config{})
					target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
						if !egresstest.AnswerH2Times(c, "ok", kept) {
							return
						}
						if _, stream, ok := c.Next(); ok {
							lost.end(c, stream)
						}
					})
					for range kept {
						_, err := client.Do(t.Context(), get(target.URL()))
						require.NoError(t, err)
					}
					request := shape // The next of its kind runs beside this one.
					request.URL = target.URL() + "/lost"
					e, _ := fails(t, client, request)
					require.Equal(t, lost.reason, e.Reason, "%v", e.Err)
					require.True(t, e.Sent)
					require.NotContains(t, e.Error(), "\x1b")
					require.Equal(t, 1, target.PerRun()["run_lost"])
					require.Equal(t, 1, target.Conns())
				})
			}
		}
	}
}

// TestConnectionDiesAtEveryMoment closes a kept connection after each number of bytes that the
// target may have read, and counts what reached its handlers.
func TestConnectionDiesAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(protocol+"/"+method, func(t *testing.T) {
				t.Parallel()
				answered := 0
				for after := 0; after < 420; after += 9 {
					if dieAfter(t, protocol, method, after) {
						answered++
					}
				}
				require.Positive(t, answered, "the last ones are past the end of the request")
				require.Less(t, answered, 40, "the first ones cut it off")
			})
		}
	}
}

// dieAfter makes one call over a connection that is cut after some bytes. It reports whether an
// answer came.
func dieAfter(t *testing.T, protocol, method string, after int) bool {
	t.Helper()
	server, client := secured(t, Config{})
	server.NextProtos = []string{protocol}
	var served atomic.Int64
	var cut egresstest.Cut
	target := egresstest.StartHTTP(t, server, &cut, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Rubato-Run-Id") == "run_lost" {
			served.Add(1)
		}
	})
	client.warm(t, target.URL(), 1)
	cut.After(after)
	request := get(target.URL() + "/lost")
	request.Method = method
	request.Meta = http.Header{"Rubato-Run-Id": {"run_lost"}, "Idempotency-Key": {"k1"}}
	if method == "POST" {
		request.Body = []byte(strings.Repeat("payload", 20))
	}
	_, err := client.Do(t.Context(), request)
	require.LessOrEqual(t, served.Load(), int64(1), "after %d bytes", after)
	if err == nil {
		require.EqualValues(t, 1, served.Load(), "after %d bytes", after)
	}
	return err == nil
}

// warm makes n good calls.
func (c *Client) warm(t *testing.T, url string, n int) {
	t.Helper()
	for range n {
		_, err := c.Do(t.Context(), get(url))
		require.NoError(t, err)
	}
}

func TestRequestThatNeverLeftOverHTTP2GoesOutOnAFreshConnection(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := secured(t, Config{})
			target := egresstest.StartH2(t, server, egresstest.AnswerH2(""))
			client.warm(t, target.URL(), 1)
			sessions, _ := client.usual.streams.look(target.URL()[len("https://"):])
			require.Len(t, sessions, 1)
			sessions[0].seal(0) // As if the target had just reset it: no byte is taken any more.
			sessions[0].failed = true

			shape.URL = target.URL()
			response, err := client.Do(t.Context(), shape)
			require.NoError(t, err)
			require.Equal(t, 200, response.StatusCode)
			require.Equal(t, 1, target.PerRun()["run_lost"])
			require.Equal(t, 2, target.Conns())
		})
	}
}

func TestHTTP2ConnectionsAreShared(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	var arrived atomic.Int64
	second := make(chan struct{})
	target := egresstest.StartHTTP(t, server, nil, func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 2 {
			close(second)
		}
		select {
		case <-second: // The first is answered when another one is here.
		case <-r.Context().Done():
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Proto, r.Method, r.Header.Get("Idempotency-Key"))
	})
	errs := make(chan error, 50)
	for range cap(errs) {
		go func() {
			request := get(target.URL())
			request.Method, request.Meta = "POST", http.Header{"Idempotency-Key": {"k"}}
			response, err := client.Do(t.Context(), request)
			if err == nil && string(response.Body) != "HTTP/2.0 POST k" {
				err = fmt.Errorf("the target saw %q", response.Body)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 1, target.Conns())
}

func TestHTTP2WireFormat(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	target := egresstest.StartH2(t, server, egresstest.AnswerH2("ok"))
	for method, body := range map[string]string{"GET": "", "POST": "xyz", "DELETE": ""} {
		_, err := client.Do(t.Context(), Request{
			Method: method, URL: target.URL() + "/p?q=1#fragment", Body: []byte(body), MaxBody: 10,
			Header: http.Header{"X-Api-Key": {"abc"}}, Meta: http.Header{"Idempotency-Key": {"k1"}},
		})
		require.NoError(t, err)
		requests := target.Requests()
		last := requests[len(requests)-1]
		want := http.Header{"User-Agent": {"Rubato"}, "Accept-Encoding": {"gzip"}, "X-Api-Key": {"abc"}, "Idempotency-Key": {"k1"}}
		if body != "" {
			want.Set("Content-Length", "3")
		}
		require.Equal(t, method, last.Method)
		require.Equal(t, "/p?q=1", last.URI)
		require.Equal(t, want, last.Header)
		require.Equal(t, body, string(last.Body))
	}
	require.Equal(t, 1, target.Conns())
}

func TestTargetThatWantsHTTP1GetsItNext(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	server.NextProtos = []string{"h2", "http/1.1"}
	var offered atomic.Value
	server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offered.Store(fmt.Sprint(hello.SupportedProtos))
		return nil, nil //nolint:nilnil // No other settings than those of the server.
	}
	target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
		if _, stream, ok := c.Next(); ok {
			_ = c.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
			c.AwaitHangup()
		}
	})
	e, _ := fails(t, client, get(target.URL()))
	require.True(t, e.Sent)
	require.Equal(t, "[h2 http/1.1]", offered.Load())
	_, _ = fails(t, client, get(target.URL()))
	require.Equal(t, "[http/1.1]", offered.Load())
}

func TestSilentHTTP2ConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
		if !egresstest.AnswerH2Times(c, "ok", 1) {
			return
		}
		if r, stream, ok := c.Next(); ok && r.URI == "/lost" {
			c.AwaitHangup()
		} else if ok {
			c.Head(stream, "200", nil, true)
		}
	})
	client.warm(t, target.URL(), 1)
	request := get(target.URL() + "/lost")
	request.Timeout = 200 * time.Millisecond
	e, _ := fails(t, client, request)
	require.Equal(t, Timeout, e.Reason)
	client.warm(t, target.URL(), 1)
	require.Equal(t, 2, target.Conns())
}

func TestSeatsHoldOverHTTP2(t *testing.T) {
	t.Parallel()
	hostSlots := newHostSlots(3)
	server, client := secured(t, Config{HostSlots: hostSlots.of})
	var most, now atomic.Int64
	all := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(all) })
	target := egresstest.StartHTTP(t, server, nil, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		<-all
		now.Add(-1)
	})
	defer goOn()
	errs := make(chan error, 60)
	for range cap(errs) {
		go func() {
			_, err := client.Do(t.Context(), get(target.URL()))
			errs <- err
		}()
	}
	awaitWaiting(t, hostSlots, &now, 3, cap(errs))
	goOn()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.EqualValues(t, 3, most.Load())
}

// TestHTTP2SessionsThatAreKeptAreBounded calls many targets once: the sessions with those that were
// not called for the longest end, and the one with a request under way does not.
func TestHTTP2SessionsThatAreKeptAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 16
	server, client := secured(t, Config{})
	server.NextProtos = []string{protocolH2}
	client.usual.streams.limit = limit
	arrived, answer := make(chan struct{}), make(chan struct{})
	busy := egresstest.StartHTTP(t, server, nil, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-answer
		w.WriteHeader(http.StatusNoContent)
	})
	done := make(chan error, 1)
	go func() {
		_, err := client.Do(t.Context(), get(busy.URL()))
		done <- err
	}()
	<-arrived
	var last *egresstest.Target
	for range 3 * limit {
		last = egresstest.StartHTTP(t, server, nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		_, err := client.Do(t.Context(), get(last.URL()))
		require.NoError(t, err)
		require.LessOrEqual(t, keptSessions(t, client), limit+1)
	}
	close(answer)
	require.NoError(t, <-done)
	_, err := client.Do(t.Context(), get(last.URL()))
	require.NoError(t, err)
	require.Equal(t, 1, last.Conns(), "the session that was used last is kept")
}

// TestHTTP2CallsWorkWithoutASessionPool sets the limit of pooled sessions to zero.
func TestHTTP2CallsWorkWithoutASessionPool(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	client.usual.streams.limit = 0
	for range 3 {
		target := egresstest.StartH2(t, server, egresstest.AnswerH2("ok"))
		_, err := client.Do(t.Context(), get(target.URL()))
		require.NoError(t, err)
		require.Equal(t, 1, target.Conns())
	}
}

// keptSessions returns how many sessions a client keeps.
func keptSessions(t *testing.T, c *Client) int {
	t.Helper()
	s := c.usual.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, o := range s.origins {
		n += len(o.sessions)
	}
	require.Equal(t, n, s.kept)
	return n
}
