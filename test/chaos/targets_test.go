package chaos

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/audit"
)

// A target that never answers costs its own runs their timeout, and nobody else anything.
func TestHungTarget(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond
	s := newStack(t, nil)
	s.startWorkers(2)
	s.register(load{n: 40, path: "hang", every: time.Second, limit: 4 * time.Second, timeout: timeout})
	s.register(load{n: 20, path: "20", every: time.Second, limit: 2 * time.Second})
	pass(6 * time.Second)
	timedOut := s.count("SELECT count(*) FROM runs WHERE status = 'timed_out'")
	require.GreaterOrEqual(t, timedOut, 40)
	slow := s.count("SELECT count(*) FROM runs WHERE status = 'timed_out' AND finished_at - started_at > interval '2.5 s'")
	require.Zero(t, slow, "a run outlasted its timeout by more than a second")

	s.conclude(verdict{name: "hung target", fault: "40 endpoints never answer", fired: fmt.Sprintf("%d runs timed out", timedOut), ended: time.Now()})
}

// moment is when a dying target ends a connection.
type moment string

const (
	afterHeader moment = "header" // the request is there, nothing is answered
	afterFirst  moment = "reuse"  // the second request of a connection that worked
	afterStatus moment = "status" // in the middle of the answer
	byReset     moment = "reset"  // with a reset instead of an end
)

// dying is a target whose connections die at one moment. It keeps every request.
type dying struct {
	net.Listener
	when moment
	wg   sync.WaitGroup

	mu    sync.Mutex
	log   []audit.Request
	ended int // connections that died with a request in them
}

func newDying(t *testing.T, when moment) *dying {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &dying{Listener: l, when: when}
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
func (d *dying) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // A connection that nobody uses any more ends too.
	reader := bufio.NewReader(conn)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		entry := requestOf(r.Header)
		_, _ = io.Copy(io.Discard, r.Body)
		dies := d.when != afterFirst || n > 1
		entry.Ended = time.Now().UTC()
		d.keep(*entry, dies)
		if dies {
			d.die(conn)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (d *dying) die(conn net.Conn) {
	switch d.when {
	case afterStatus:
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(1000)+"\r\n\r\nhalf of")
	case byReset:
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
	case afterHeader, afterFirst:
	}
}

func (d *dying) keep(entry audit.Request, dies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, entry)
	if dies {
		d.ended++
	}
}

func (d *dying) seen() (log []audit.Request, ended int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]audit.Request(nil), d.log...), d.ended
}

// Whenever a connection dies, exactly one request of each run has been on the wire: none is sent again behind its back.
func TestDyingConnections(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(2)
	var targets []*dying
	for _, when := range []moment{afterHeader, afterFirst, afterStatus, byReset} {
		d := newDying(t, when)
		targets = append(targets, d)
		for _, method := range []client.Method{client.MethodGET, client.MethodPOST} {
			s.register(load{
				n: 8, path: string(when), base: "http://" + d.Addr().String(), every: time.Second, limit: 2 * time.Second, method: method, noSpread: true,
			})
		}
	}
	pass(8 * time.Second)
	s.awaitOnSchedule()
	s.quiesce()
	var all []audit.Request
	died := 0
	for _, d := range targets {
		log, ended := d.seen()
		require.Positive(t, ended, "no connection died at %s", d.when)
		all, died = append(all, log...), died+ended
	}
	failures := s.count("SELECT count(*) FROM runs WHERE status = 'failed'")
	require.Positive(t, failures)

	r := s.conclude(verdict{
		name: "dying connections", fault: "connections end at every moment, GET and POST, reused and new", fired: fmt.Sprintf("%d connections died", died),
		ended: time.Now(), extra: all,
	})
	require.Zero(t, r.Counts.Duplicates)
	require.Equal(t, len(all), r.Check(audit.OneRequest).Checked, "one request for each run")
}
