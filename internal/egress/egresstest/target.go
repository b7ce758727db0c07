// Package egresstest provides scripted targets for tests, including broken ones. They record every
// request. They use plain sockets, so that the records show the bytes on the wire.
package egresstest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"log" //nolint:depguard // The server of the standard library asks for it.
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// Request is a recorded request.
type Request struct {
	Conn   int // connection number, from 1
	Method string
	URI    string // path and query
	Header http.Header
	Body   []byte
	Raw    string // raw bytes of head and body
}

// Script serves one connection. The connection is closed when it returns.
type Script func(c *Conn)

// Target is a server on a loopback port of its own.
type Target struct {
	scheme   string
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]struct{}
	conns    int
	requests []Request
}

// Start serves script on every connection until the test ends.
func Start(tb testing.TB, script Script) *Target {
	tb.Helper()
	return serve(tb, "http", listen(tb, "127.0.0.1:0"), script)
}

// StartAt is [Start] on the given address, such as "127.0.0.2:0".
func StartAt(tb testing.TB, address string, script Script) *Target {
	tb.Helper()
	return serve(tb, "http", listen(tb, address), script)
}

// StartTLS is [Start] over TLS.
func StartTLS(tb testing.TB, cfg *tls.Config, script Script) *Target {
	tb.Helper()
	return serve(tb, "https", tls.NewListener(listen(tb, "127.0.0.1:0"), cfg), script)
}

// StartHTTP serves handler over TLS until the test ends, by HTTP/2 if the client offers it. It
// counts connections but records no requests. If cut is not nil, it closes one connection.
func StartHTTP(tb testing.TB, cfg *tls.Config, cut *Cut, handler http.HandlerFunc) *Target {
	tb.Helper()
	t := &Target{
		scheme:   "https",
		listener: listen(tb, "127.0.0.1:0"),
		open:     make(map[net.Conn]struct{}),
	}
	if cut != nil {
		t.listener = listener{Listener: t.listener, cut: cut}
	}
	server := &http.Server{
		Handler:   handler,
		TLSConfig: cfg.Clone(),
		ErrorLog:  log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				t.mu.Lock()
				t.conns++
				t.mu.Unlock()
			}
		},
	}
	t.serving.Go(func() { _ = server.ServeTLS(t.listener, "", "") })
	tb.Cleanup(func() {
		_ = server.Close()
		t.serving.Wait()
	})
	return t
}

func listen(tb testing.TB, address string) net.Listener {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatalf("listening on %s: %v", address, err)
	}
	return listener
}

func serve(tb testing.TB, scheme string, listener net.Listener, script Script) *Target {
	tb.Helper()
	t := &Target{
		scheme:   scheme,
		listener: listener,
		open:     make(map[net.Conn]struct{}),
	}
	t.serving.Go(func() { t.accept(script) })
	tb.Cleanup(t.close)
	return t
}

// URL returns the URL of the target, without a path.
func (t *Target) URL() string { return t.scheme + "://" + t.listener.Addr().String() }

// Port returns the port of the target.
func (t *Target) Port() int { return t.listener.Addr().(*net.TCPAddr).Port }

// Conns returns the number of accepted connections.
func (t *Target) Conns() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns
}

// Requests returns the recorded requests, in order.
func (t *Target) Requests() []Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// PerRun counts the requests by their Rubato-Run-Id.
func (t *Target) PerRun() map[string]int {
	count := make(map[string]int)
	for _, r := range t.Requests() {
		count[r.Header.Get("Rubato-Run-Id")]++
	}
	return count
}

func (t *Target) accept(script Script) {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			return
		}
		number, ok := t.register(c)
		if !ok {
			c.Close()
			return
		}
		t.serving.Go(func() {
			defer t.unregister(c)
			sniffed := &recorder{Conn: c}
			script(&Conn{
				target: t,
				number: number,
				conn:   sniffed,
				reader: bufio.NewReader(sniffed),
			})
		})
	}
}

func (t *Target) register(c net.Conn) (number int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, false
	}
	t.conns++
	t.open[c] = struct{}{}
	return t.conns, true
}

func (t *Target) unregister(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
}

func (t *Target) record(r Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, r)
}

// close closes all connections and waits for the scripts.
func (t *Target) close() {
	t.listener.Close()
	t.mu.Lock()
	t.closed = true
	for c := range t.open {
		c.Close()
	}
	t.mu.Unlock()
	t.serving.Wait()
}

// recorder records the bytes read from a connection.
type recorder struct {
	net.Conn

	seen bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.seen.Write(p[:n])
	return n, err
}

// Conn is the connection of a script.
type Conn struct {
	target *Target
	number int
	conn   *recorder
	reader *bufio.Reader
}

// Next reads and records the next request. It returns false if the client has disconnected.
func (c *Conn) Next() (Request, bool) {
	r, err := http.ReadRequest(c.reader)
	if err != nil {
		return Request{}, false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Request{}, false
	}
	request := Request{
		Conn:   c.number,
		Method: r.Method,
		URI:    r.RequestURI,
		Header: r.Header,
		Body:   body,
		Raw:    c.conn.seen.String(),
	}
	c.conn.seen.Reset()
	c.target.record(request)
	return request, true
}

// Arrived waits for the first byte of a request without consuming it. It returns false if the
// client has disconnected.
func (c *Conn) Arrived() bool {
	_, err := c.reader.Peek(1)
	return err == nil
}

// Write sends text unchanged. It returns false if the client has disconnected.
func (c *Conn) Write(text string) bool {
	_, err := io.WriteString(c.conn, text)
	return err == nil
}

// AwaitHangup waits until the client closes the connection.
func (c *Conn) AwaitHangup() {
	_, _ = io.Copy(io.Discard, c.reader)
}
