package chaos

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is what lies between one worker and Postgres: it passes bytes on until it is cut or stalled.
type link struct {
	listener net.Listener
	upstream string // a Unix socket

	mu    sync.Mutex
	gate  chan struct{} // closed while bytes pass
	down  bool
	conns map[net.Conn]struct{}
	broke int // connections that a cut ended
	held  int // chunks that a stall held up
	wg    sync.WaitGroup
}

func newLink(t *testing.T, upstream string) *link {
	t.Helper()
	l := &link{upstream: upstream, conns: map[net.Conn]struct{}{}, gate: make(chan struct{})}
	close(l.gate)
	var err error
	l.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.wg.Go(l.accept)
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.cut()
		l.restore()
		l.wg.Wait()
	})
	return l
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", l.upstream)
		if err != nil || !l.keep(client, server) {
			_ = client.Close()
			continue
		}
		l.wg.Go(func() { l.pass(client, server) })
		l.wg.Go(func() { l.pass(server, client) })
	}
}

// keep notes a pair of connections, unless the link is down.
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

// pass copies one direction. While the link is stalled neither bytes nor the end of a connection come through.
func (l *link) pass(from, to net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		<-l.open()
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

// open returns a channel that is closed as soon as bytes pass.
func (l *link) open() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gate:
	default:
		l.held++
	}
	return l.gate
}

// cut ends every connection and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for conn := range l.conns {
		l.broke++
		_ = conn.Close()
	}
}

// stall holds up every byte from now on; connections stay open.
func (l *link) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
}

// restore lets everything pass again.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
	select {
	case <-l.gate:
	default:
		close(l.gate)
	}
}

// felt returns how many connections were cut and how many chunks were held up.
func (l *link) felt() (broke, held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broke, l.held
}

// address returns host and port of the worker's end.
func (l *link) address() string { return l.listener.Addr().String() }
