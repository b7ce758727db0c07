package egress

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"rubato/internal/egress/egresstest"
	"rubato/internal/waittest"
)

// endlessly writes what write writes until the client has gone.
func endlessly(write func() error) {
	for write() == nil {
	}
}

// flooding is a target that answers a request with what no cap on headers or bodies bounds.
func flooding(what func(c *egresstest.H2Conn, stream uint32) func() error) egresstest.H2Script {
	return func(c *egresstest.H2Conn) {
		if _, stream, ok := c.Next(); ok {
			write := what(c, stream)
			go c.AwaitHangup() // The client's answer must not hold the flood up.
			endlessly(write)
		}
	}
}

func floods() map[string]egresstest.H2Script {
	return map[string]egresstest.H2Script{
		"Pings": flooding(func(c *egresstest.H2Conn, _ uint32) func() error {
			return func() error { return c.WritePing(false, [8]byte{}) }
		}),
		"PingAcks": flooding(func(c *egresstest.H2Conn, _ uint32) func() error {
			return func() error { return c.WritePing(true, [8]byte{}) }
		}),
		"Settings": flooding(func(c *egresstest.H2Conn, _ uint32) func() error {
			return func() error { return c.WriteSettings() }
		}),
		"WindowUpdates": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			return func() error { return c.WriteWindowUpdate(stream, 1) }
		}),
		"Priorities": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			return func() error { return c.WritePriority(stream, http2.PriorityParam{Weight: 1}) }
		}),
		"UnknownFrames": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			return func() error { return c.WriteRawFrame(0xee, 0, stream, make([]byte, 100)) }
		}),
		"EmptyData": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			c.Head(stream, "200", nil, false)
			return func() error { return c.WriteData(stream, false, nil) }
		}),
		"Continuations": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block("200", nil)})
			return func() error { return c.WriteContinuation(stream, false, nil) }
		}),
		"HeaderBomb": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block("200", nil)})
			block := c.Block("200", map[string]string{"x-bomb": strings.Repeat("b", 8000)})[1:]
			return func() error { return c.WriteContinuation(stream, false, block) }
		}),
		"InterimAnswers": flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
			block := c.Block("103", nil)
			return func() error {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true})
			}
		}),
		"HugeFrame": func(c *egresstest.H2Conn) {
			if _, stream, ok := c.Next(); ok {
				c.Head(stream, "200", nil, false)
				_ = c.WriteRawFrame(http2.FrameData, 0, stream, make([]byte, 1<<20))
				c.AwaitHangup()
			}
		},
		"Garbage": func(c *egresstest.H2Conn) {
			if _, _, ok := c.Next(); ok {
				_ = c.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 77, []byte("\xff\xff\xff\xff"))
				c.AwaitHangup()
			}
		},
	}
}

func TestHTTP2FloodsEndInTime(t *testing.T) {
	t.Parallel()
	for name, script := range floods() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := secured(t, Config{})
			target := egresstest.StartH2(t, server, script)
			request := get(target.URL())
			// Whatever else the machine does, the flood ends before.
			request.Timeout = 2 * time.Minute
			e, _ := fails(t, client, request)
			require.Equal(t, ProtocolError, e.Reason, "%v", e.Err)
			require.True(t, e.Sent)
			require.Len(t, target.Requests(), 1)
		})
	}
}

// TestHTTP2StatusesHaveThreeDigits: the transport takes any number for a status, and a record of a
// run does not.
func TestHTTP2StatusesHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"0", "-5", "7", "99", "1000", "65736", "99999999", "18446744073709551816", "abc", "", "101"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			server, client := secured(t, Config{})
			target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
				if _, stream, ok := c.Next(); ok && c.Head(stream, status, nil, true) {
					c.AwaitHangup()
				}
			})
			e, response := fails(t, client, get(target.URL()))
			require.Equal(t, ProtocolError, e.Reason, "%v", e.Err)
			require.True(t, e.Sent)
			require.Zero(t, response.StatusCode)
		})
	}
}

// TestHTTP2TargetWithoutAWindowEndsInTime takes no byte of a body.
func TestHTTP2TargetWithoutAWindowEndsInTime(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) { c.AwaitHangup() }, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	request := get(target.URL())
	request.Method, request.Body, request.Timeout = http.MethodPost, make([]byte, 100_000), 300*time.Millisecond
	e, _ := fails(t, client, request)
	require.Equal(t, Timeout, e.Reason, "%v", e.Err)
}

// TestHTTP2TargetWithoutStreamsIsNotDialledForEver permits no streams on any connection.
func TestHTTP2TargetWithoutStreamsIsNotDialledForEver(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	server.NextProtos = []string{http2.NextProtoTLS}
	// Before it has heard anything.
	target := egresstest.StartTLS(t, server, func(c *egresstest.Conn) {
		if c.Write("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00") {
			c.AwaitHangup()
		}
	})
	const calls = 5
	for range calls {
		request := get(target.URL())
		request.Timeout = 500 * time.Millisecond
		e, _ := fails(t, client, request)
		require.Contains(t, []Reason{ConnectionLost, Timeout}, e.Reason, "%v", e.Err)
	}
	require.LessOrEqual(t, target.Conns(), calls*maxUnusable)
}

// TestHTTP2TargetMayNotSpeakForEver floods a connection on which nothing is asked any more.
func TestHTTP2TargetMayNotSpeakForEver(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	gone := make(chan struct{})
	target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
		defer close(gone)
		if egresstest.AnswerH2Times(c, "ok", 1) {
			go c.AwaitHangup()
			endlessly(func() error { return c.WritePing(true, [8]byte{}) })
		}
	})
	client.warm(t, target.URL(), 1)
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the connection is still open")
	}
}

// TestRapidResetsCostOneRequestEach resets every request as soon as it came.
func TestRapidResetsCostOneRequestEach(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
		for {
			_, stream, ok := c.Next()
			if !ok || c.WriteRSTStream(stream, http2.ErrCodeRefusedStream) != nil {
				return
			}
		}
	})
	const calls = 200
	for i := range calls {
		request := get(target.URL())
		request.Meta = http.Header{"Rubato-Run-Id": {fmt.Sprint("run", i)}}
		e, _ := fails(t, client, request)
		require.Equal(t, ConnectionLost, e.Reason)
		require.Equal(t, "calling "+target.URL()+": connection_lost: the target refused the request unseen", e.Error())
	}
	require.Len(t, target.PerRun(), calls)
	require.Len(t, target.Requests(), calls)
}

// TestHostileTargetsTakeBoundedMemory calls 100 targets of ten kinds at once and measures the
// memory in use.
func TestHostileTargetsTakeBoundedMemory(t *testing.T) { //nolint:paralleltest // It measures the memory of the whole process.
	const (
		calls = 100
		limit = 64 << 10
		// buffers of sockets, sessions, flow control and decompression, of both sides: 320 KiB for
		// each call
		slack = 32 << 20
	)
	server, client := secured(t, Config{})
	long := strings.Repeat("x", 64<<10)
	endless := egresstest.Endless(chunked, "10000\r\n"+long+"\r\n", 0)
	data := flooding(func(c *egresstest.H2Conn, stream uint32) func() error {
		c.Head(stream, "200", nil, false)
		return func() error { return c.WriteData(stream, false, []byte(long[:16<<10])) }
	})
	targets := []*egresstest.Target{
		egresstest.Start(t, endless), egresstest.Start(t, egresstest.HeaderBomb()),
		egresstest.Start(t, egresstest.Once(encoded(zipped(t, make([]byte, 64<<20))))),
		egresstest.Start(t, egresstest.Endless("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", long, 0)),
		egresstest.Start(t, egresstest.Endless("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0)),
		egresstest.StartTLS(t, server, endless), egresstest.StartH2(t, server, data),
		egresstest.StartH2(t, server, floods()["Pings"]), egresstest.StartH2(t, server, floods()["HeaderBomb"]),
		egresstest.StartH2(t, server, floods()["Continuations"]),
	}
	before, base := heap(), runtime.NumGoroutine()
	peak, stop := watchHeap()
	done := make(chan struct{}, calls)
	for i := range calls {
		go func() {
			request := get(targets[i%len(targets)].URL())
			request.MaxBody = limit
			response, _ := client.Do(t.Context(), request)
			if len(response.Body) > limit {
				t.Errorf("%d bytes were kept", len(response.Body))
			}
			done <- struct{}{}
		}()
	}
	for range calls {
		<-done
	}
	close(stop)
	grown := max(0, int64(<-peak)-int64(before))
	t.Logf("the heap grew by %d KiB at most", grown>>10)
	require.Less(t, grown, int64(calls*limit+slack))
	client.Close()
	waittest.Until(t, func() bool { return runtime.NumGoroutine() <= base+10 })
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watchHeap measures the live heap until stop is closed, and then sends its peak.
func watchHeap() (peak <-chan uint64, stop chan<- struct{}) {
	told, end := make(chan uint64, 1), make(chan struct{})
	go func() {
		most := uint64(0)
		for {
			select {
			case <-end:
				told <- most
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, heap())
			}
		}
	}()
	return told, end
}
