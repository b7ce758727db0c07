package chaos

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/audit"
)

// A target that never answers costs its own runs their timeout and delays no other endpoint.
func TestHungTarget(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond
	s := newStack(t, nil)
	s.startWorkers(2)
	s.register(load{n: 40, path: "hang", every: time.Second, limit: 4 * time.Second, timeout: timeout})
	s.register(load{n: 20, path: "20", every: time.Second, limit: 2 * time.Second})
	const hung = "SELECT count(DISTINCT endpoint_id) FROM runs WHERE status = 'timed_out'"
	eventually(t, "a run of each endpoint that hangs to time out", func() bool { return s.count(hung) == 40 })
	timedOut := s.count("SELECT count(*) FROM runs WHERE status = 'timed_out'")
	slow := s.count("SELECT count(*) FROM runs WHERE status = 'timed_out' AND finished_at - started_at > interval '2.5 s'")
	require.Zero(t, slow, "a run outlasted its timeout by more than a second")

	s.conclude(verdict{name: "hung target", fault: "40 endpoints never answer", fired: fmt.Sprintf("%d runs timed out", timedOut), ended: time.Now()})
}

// closingMoment names when a dying target ends a connection.
type closingMoment string

const (
	atOnce      closingMoment = "at once" // before a byte is read
	halfway     closingMoment = "halfway" // in the middle of the request
	afterHeader closingMoment = "request" // the request is there, nothing is answered
	afterFirst  closingMoment = "reuse"   // at the second request of a connection that worked
	whileIdle   closingMoment = "idle"    // between two requests
	afterStatus closingMoment = "answer"  // in the middle of the answer
	byReset     closingMoment = "reset"   // with a reset instead of an end
)

func moments() []closingMoment {
	return []closingMoment{atOnce, halfway, afterHeader, afterFirst, whileIdle, afterStatus, byReset}
}

// idleFor is the lifetime of a connection that dies between two requests: about the time until the
// next one.
const idleFor = 990 * time.Millisecond

// closingTarget is a target that ends each connection at one moment. It records every request.
type closingTarget struct {
	net.Listener
	when closingMoment
	wg   sync.WaitGroup

	mu    sync.Mutex
	log   []audit.Request
	ended int // connections that died at the moment
}

func newDying(t *testing.T, when closingMoment) *closingTarget {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &closingTarget{Listener: l, when: when}
	d.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	return d
}

// serve answers requests until the connection is to die.
func (d *closingTarget) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute)) // Unused connections end too.
	if d.when == atOnce {
		d.died()
		return
	}
	reader := bufio.NewReader(conn)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(reader)
		if err != nil {
			if d.when == whileIdle && n > 1 {
				d.died()
			}
			return
		}
		entry := requestOf(r.Header)
		body := io.Reader(r.Body)
		if d.when == halfway {
			body = io.LimitReader(r.Body, int64(len(dyingBody)/2))
		}
		_, _ = io.Copy(io.Discard, body)
		entry.Ended = time.Now().UTC()
		d.keep(*entry)
		if d.dies(n) {
			d.died()
			d.die(conn)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if d.when == whileIdle {
			_ = conn.SetReadDeadline(time.Now().Add(idleFor))
		}
	}
}

// dies reports whether a connection dies at its n-th request.
func (d *closingTarget) dies(n int) bool {
	return d.when != whileIdle && (d.when != afterFirst || n > 1)
}

// dyingBody is larger than one write to a connection, so that half of it is distinct from all of
// it.
var dyingBody = strings.Repeat("x", 200<<10)

func (d *closingTarget) die(conn net.Conn) {
	switch d.when {
	case afterStatus:
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(1000)+"\r\n\r\nhalf of")
	case byReset, halfway:
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
	case atOnce, whileIdle, afterHeader, afterFirst:
	}
}

func (d *closingTarget) keep(entry audit.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, entry)
}

func (d *closingTarget) died() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended++
}

func (d *closingTarget) seen() (log []audit.Request, ended int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]audit.Request(nil), d.log...), d.ended
}

// Exactly one request of each run reaches the wire, whenever a connection dies: the transport does
// not resend. Connections speak HTTP/1.1 and are reused.
func TestDyingConnections(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(2)
	var targets []*closingTarget
	for _, when := range moments() {
		d := newDying(t, when)
		targets = append(targets, d)
		for _, method := range []client.Method{client.MethodGET, client.MethodPOST} {
			l := load{
				n: 8, path: url.PathEscape(string(when)), base: "http://" + d.Addr().String(), every: time.Second, limit: 2 * time.Second, method: method,
				noSpread: true,
			}
			if method == client.MethodPOST {
				l.body = dyingBody
			}
			s.register(l)
		}
	}
	pass(8*time.Second + size().killing/2)
	died := 0
	for _, d := range targets {
		_, ended := d.seen()
		require.Positive(t, ended, "no connection died at %s", d.when)
		died += ended
	}
	failures := s.count("SELECT count(*) FROM runs WHERE status = 'failed'")
	require.Positive(t, failures)

	var all []audit.Request
	r := s.conclude(verdict{
		name: "dying connections", fault: "connections end at every moment, GET and POST, reused and new", fired: fmt.Sprintf("%d connections died", died),
		ended: time.Now(), extra: func() []audit.Request {
			for _, d := range targets {
				log, _ := d.seen()
				all = append(all, log...)
			}
			return all
		},
	})
	require.Zero(t, r.Counts.Duplicates)
	require.Equal(t, len(all), r.Check(audit.OneRequest).Checked, "one request for each run")
}
