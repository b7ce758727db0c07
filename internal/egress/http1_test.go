package egress

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

// long is a body that no socket takes whole while its receiver does not read.
func long() []byte { return bytes.Repeat([]byte("x"), 32<<20) }

func post(url string, body []byte) Request {
	r := get(url)
	r.Method, r.Body = http.MethodPost, body
	return r
}

// TestAnAnswerMayComeBeforeTheEndOfALongRequest has a target that refuses a long body with an
// answer and stops reading.
func TestAnAnswerMayComeBeforeTheEndOfALongRequest(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		if c.Arrived() && c.Write(egresstest.Status("413 Content Too Large", "no")) {
			<-answered
		}
	})
	client := setup(t)
	for range 2 {
		response, err := client.Do(t.Context(), post(target.URL(), long()))
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
		require.Equal(t, "no", string(response.Body))
	}
	close(answered)
	require.Equal(t, 2, target.Conns(), "what is left of a request may not be taken for the next one")
}

func TestALongRequestThatWasReadKeepsItsConnection(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	client := setup(t)
	for _, size := range []int{1, takenAtOnce, takenAtOnce + 1, 1 << 20, 1} {
		_, err := client.Do(t.Context(), post(target.URL(), long()[:size]))
		require.NoError(t, err)
	}
	require.Equal(t, 1, target.Conns())
	for i, size := range []int{1, takenAtOnce, takenAtOnce + 1, 1 << 20, 1} {
		require.Len(t, target.Requests()[i].Body, size)
	}
}

func TestCancelingALongRequestEndsIt(t *testing.T) {
	t.Parallel()
	arrived, over := make(chan struct{}), make(chan struct{})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		c.Arrived()
		close(arrived)
		<-over
	})
	_, err := setup(t).Do(canceledAfter(t, arrived), post(target.URL(), long()))
	close(over)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Canceled, e.Reason)
	require.True(t, e.Sent)
}

// TestACanceledRequestSendsNothing cancels before a fresh connection and before a pooled one, which
// is not used for it.
func TestACanceledRequestSendsNothing(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	client := setup(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for seen := range 2 {
		_, err := client.Do(gone, get(target.URL()))
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, Canceled, e.Reason)
		require.False(t, e.Sent)
		require.Len(t, target.Requests(), seen)
		_, err = client.Do(t.Context(), get(target.URL()))
		require.NoError(t, err)
	}
}

// TestBytesAfterAnAnswerAreNoAnswer sends a second answer, in the same packet or later, without a
// request.
func TestBytesAfterAnAnswerAreNoAnswer(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"InOnePiece": false, "Later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, sent := make(chan struct{}, 1), make(chan struct{}, 1)
			target := egresstest.Start(t, func(c *egresstest.Conn) {
				c.Next()
				text := egresstest.OK("asked")
				if !apart {
					c.Write(text + egresstest.OK("not asked"))
				} else {
					c.Write(text)
					<-read
					c.Write(egresstest.OK("not asked"))
				}
				sent <- struct{}{}
				c.AwaitHangup()
			})
			client := setup(t)
			for range 3 {
				response, err := client.Do(t.Context(), get(target.URL()))
				require.NoError(t, err)
				require.Equal(t, "asked", string(response.Body))
				read <- struct{}{}
				<-sent
				if !apart {
					<-read
				}
			}
			require.Equal(t, 3, target.Conns())
		})
	}
}

// TestAConnectionIsNotPooledAfterAnUnusableStatus answers with a switch of protocols, and with an
// invalid status.
func TestAConnectionIsNotPooledAfterAnUnusableStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"101 Switching Protocols", "099 Nothing"} {
		target := egresstest.Start(t, egresstest.Answer(egresstest.Status(status, "")))
		client := setup(t)
		for calls := range 2 {
			e, _ := fails(t, client, get(target.URL()))
			require.Equal(t, ProtocolError, e.Reason)
			require.Equal(t, calls+1, target.Conns())
		}
	}
}

// failingWriteConn is a connection that takes so many bytes, and then fails.
type failingWriteConn struct {
	net.Conn

	takes int
}

func (d *failingWriteConn) Write(p []byte) (int, error) {
	n := min(len(p), d.takes)
	d.takes -= n
	if n < len(p) {
		return n, syscall.EPIPE
	}
	return n, nil
}

// TestEarlyAnswerIsReadWhenTheTargetStopsReading: if a part of the request has been sent, the
// answer is read, with a short wait.
func TestEarlyAnswerIsReadWhenTheTargetStopsReading(t *testing.T) {
	t.Parallel()
	refusal := egresstest.Status("431 Request Header Fields Too Large", "no")
	for name, test := range map[string]struct {
		takes  int
		says   string
		status int
		sent   bool
	}{
		"ItSays":                  {10, refusal, http.StatusRequestHeaderFieldsTooLarge, true},
		"ItDoesNot":               {10, "", 0, true},
		"ItSaysWhatNobodyAsked":   {0, refusal, 0, false},
		"ItDoesNotAndTookNothing": {0, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				go func() { _, _ = io.WriteString(far, test.says) }()
				at := &attempt{exchange: &exchange{transport: &transport{pool: newIdlePool()}, cancel: func() {}}, conn: overTCP(&failingWriteConn{near, test.takes})}
				began := time.Now()
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
				require.NoError(t, err)
				answer, err := at.roundTripHTTP1(t.Context(), request)
				require.LessOrEqual(t, time.Since(began), alertTime)
				require.Equal(t, test.sent, at.sent())
				if test.status == 0 {
					require.ErrorIs(t, err, syscall.EPIPE)
					require.True(t, at.lost())
					return
				}
				require.NoError(t, err)
				require.Equal(t, test.status, answer.StatusCode)
				_, err = io.Copy(io.Discard, answer.Body)
				require.NoError(t, err)
				require.Empty(t, at.exchange.transport.pool.list())
			})
		})
	}
}

// TestCanceledConnectionsAreNotPooled ends the context when the answer has arrived and its body is
// not read yet.
func TestCanceledConnectionsAreNotPooled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(far))
			_, _ = io.WriteString(far, egresstest.OK("all of it"))
		}()
		at := &attempt{exchange: &exchange{transport: &transport{pool: newIdlePool()}, cancel: func() {}}, conn: overTCP(near)}
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		answer, err := at.roundTripHTTP1(ctx, request)
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.Empty(t, at.exchange.transport.pool.list())
	})
}
