package chaos

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is a proxy between programs and Postgres. It passes bytes on until it is cut, refuses
// connections, stalls, or drops answers.
type link struct {
	upstream string // a Unix socket
	at       string // address for the programs

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	requests *gate
	replies  *gate
	down     bool
	conns    map[net.Conn]struct{}
	broke    int // connections that a cut ended
	lossy    bool
	doomed   map[net.Conn]bool // connections to Postgres with a next answer to drop
	lost     int               // answers to commits that were dropped
	wg       sync.WaitGroup
}

// gate lets the bytes of one direction pass while it is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while bytes pass
	held int           // chunks that were held up
}

func newLink(t *testing.T, upstream string) *link {
	t.Helper()
	l := &link{upstream: upstream, conns: map[net.Conn]struct{}{}, doomed: map[net.Conn]bool{}, requests: newGate(), replies: newGate()}
	l.at = freeAddress(t) // The port is free again after it has refused.
	listener, err := net.Listen("tcp", l.at)
	require.NoError(t, err)
	l.serve(listener)
	t.Cleanup(func() {
		l.refuse()
		l.requests.lift()
		l.replies.lift()
		l.wg.Wait()
	})
	return l
}

// serve accepts connections until the listener is closed.
func (l *link) serve(listener net.Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener, l.down = listener, false
	l.wg.Go(func() { l.accept(listener) })
}

func (l *link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", l.upstream)
		if err != nil || !l.keep(client, server) {
			_ = client.Close()
			continue
		}
		l.wg.Go(func() { l.pass(client, server, l.requests) })
		l.wg.Go(func() { l.pass(server, client, l.replies) })
	}
}

// keep records a pair of connections. It reports false if the link is down.
func (l *link) keep(client, server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = server.Close()
		return false
	}
	l.conns[client], l.conns[server] = struct{}{}, struct{}{}
	return true
}

// pass copies one direction. While its gate is shut, neither bytes nor the end of a connection get
// through.
func (l *link) pass(from, to net.Conn, g *gate) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		<-g.opened()
		if l.loses(from) {
			break
		}
		l.doom(to, buffer[:n])
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = from.Close()
	_ = to.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, from)
	delete(l.conns, to)
}

// doom marks a connection as soon as Postgres receives a commit on it, so that the answer is
// dropped. It marks one commit in ten while the link is lossy.
func (l *link) doom(to net.Conn, chunk []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lossy && bytes.Contains(chunk, []byte("commit\x00")) && rand.IntN(10) == 0 {
		l.doomed[to] = true
	}
}

// loses reports whether an answer on a connection is dropped, and with it the connection.
func (l *link) loses(from net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doomed[from] {
		delete(l.doomed, from)
		l.lost++
		return true
	}
	return false
}

// loseCommits drops the answer to every tenth commit from now on, or to none.
func (l *link) loseCommits(lossy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = lossy
}

// lostCommits returns the number of commits with a dropped answer.
func (l *link) lostCommits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// cut ends every connection, and each new one as soon as it is accepted.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for conn := range l.conns {
		l.broke++
		_ = conn.Close()
	}
}

// refuse ends every connection and refuses new ones: nothing listens any more.
func (l *link) refuse() {
	l.mu.Lock()
	if l.listener != nil {
		_ = l.listener.Close()
	}
	l.listener = nil
	l.mu.Unlock()
	l.cut()
}

// stall holds up every byte from now on; connections stay open.
func (l *link) stall() {
	l.requests.shut()
	l.replies.shut()
}

// deafen holds back the answers of Postgres; statements still reach it.
func (l *link) deafen() { l.replies.shut() }

// restore lets everything pass again.
func (l *link) restore(t *testing.T) {
	t.Helper()
	l.requests.lift()
	l.replies.lift()
	l.mu.Lock()
	refusing := l.listener == nil
	l.down = false
	l.mu.Unlock()
	if refusing {
		listener, err := net.Listen("tcp", l.at)
		require.NoError(t, err)
		l.serve(listener)
	}
}

// felt returns the number of connections that were cut and of chunks that were held up.
func (l *link) felt() (broke, held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broke, l.requests.kept() + l.replies.kept()
}

// address returns host and port of the programs' end.
func (l *link) address() string { return l.at }

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// opened returns a channel that is closed as soon as bytes pass.
func (g *gate) opened() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		g.held++
	}
	return g.open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) kept() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}
