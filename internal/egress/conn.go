package egress

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	alertTime = 100 * time.Millisecond // maximum wait of a failed write for the TLS alert
	tidyTime  = time.Millisecond       // maximum time to read pending records of a TLS session
)

// conn is a connection that records whether a request may have left through it. For https it wraps
// the TLS session, so that it counts the bytes of requests but not those of the handshake.
type conn struct {
	net.Conn

	frames  *frames         // flood budget of HTTP/2; nil: HTTP/1.1
	socket  syscall.RawConn // underlying socket; nil: none
	session bool            // a TLS session lies above the socket, to the target or to a proxy

	bytesRead atomic.Int64 // bytes read
	answered  atomic.Bool  // an answer has begun on this connection

	mu      sync.Mutex
	written int64     // bytes written
	writing bool      // a write is in progress, with an unknown number of bytes sent
	sealed  bool      // no further write is permitted
	failed  bool      // the connection itself ended, by an error or by the peer
	sendBy  time.Time // send deadline of the next request; zero: none
	alert   error     // TLS alert of the target before any answer; nil: none

	ended chan struct{} // closed when reading has ended; nil without TLS to the target
}

// overTCP wraps a plain connection.
func overTCP(plain net.Conn) *conn {
	socket, session := socketOf(plain)
	return &conn{
		Conn:    plain,
		socket:  socket,
		session: session,
	}
}

// overTLS wraps a TLS session.
func overTLS(session net.Conn) *conn {
	c := overTCP(session)
	c.ended = make(chan struct{})
	return c
}

// Write writes p, unless the connection is sealed or the send deadline of the request has passed.
func (c *conn) Write(p []byte) (int, error) {
	if !c.beginWrite() {
		return 0, errSealed
	}
	n, err := c.Conn.Write(p)
	c.endWrite(n)
	c.recordEnd(err)
	if err != nil && c.frames != nil && c.lost() {
		c.awaitAlert()
	}
	return n, err
}

// awaitAlert waits until the reading goroutine has received the alert that ended the TLS session,
// because the alert may still be in flight when a write fails. It waits at most alertTime.
func (c *conn) awaitAlert() {
	timer := time.NewTimer(alertTime)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
}

// Read reads into p. On an HTTP/2 connection it also charges the flood budget.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.recordEnd(err)
	c.bytesRead.Add(int64(n))
	if err != nil && c.ended != nil {
		c.endRead(err)
	}
	if c.frames == nil {
		return n, err
	}
	if !c.frames.charge(p[:n]) {
		return 0, &fault{reason: ProtocolError, err: errFlood}
	}
	return n, err
}

// quiet reports whether an idle connection is still open and has no unread bytes. For a TLS session
// it reads with a short deadline, because session tickets may wait in the socket and application
// data in the session's buffer.
func (c *conn) quiet() bool {
	came := c.unread()
	if !c.session {
		return !came
	}
	wait := -time.Second
	if came {
		wait = tidyTime
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	n, err := c.Conn.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && !c.unread()
}

// unread reports whether unread bytes, or the end of the connection, wait in the socket.
func (c *conn) unread() bool {
	if c.socket == nil {
		return false
	}
	unread := false
	_ = c.socket.Control(func(fd uintptr) {
		var next [1]byte
		_, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		unread = !errors.Is(err, syscall.EAGAIN)
	})
	return unread
}

// socketOf returns the socket under a connection, or nil, and whether a TLS session lies above it.
func socketOf(c net.Conn) (socket syscall.RawConn, session bool) {
	for {
		switch at := c.(type) {
		case interface{ NetConn() net.Conn }:
			c, session = at.NetConn(), true
		case syscall.Conn:
			socket, _ = at.SyscallConn() // A closed connection has none.
			return socket, session
		default:
			return nil, session
		}
	}
}

// endRead records an alert of the target and the end of reading. Such an alert arrives after the
// handshake, because a TLS 1.3 handshake is complete for the client before the target checks the
// client's certificate.
func (c *conn) endRead(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isAlert(err) && !c.answered.Load() {
		c.alert = err
	}
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
}

// refused returns the alert by which the target ended the TLS session before any answer, or nil.
func (c *conn) refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alert
}

func (c *conn) beginWrite() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overdue() {
		c.sealed = true
	}
	if c.sealed {
		return false
	}
	c.sendBy = time.Time{}
	c.writing = true
	return true
}

func (c *conn) endWrite(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = false
	c.written += int64(n)
}

// overdue reports whether the send deadline of the next request has passed. The caller holds mu.
func (c *conn) overdue() bool { return !c.sendBy.IsZero() && time.Now().After(c.sendBy) }

// begin sets the send deadline of the next request.
func (c *conn) begin(sendBy time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendBy = sendBy
}

// recordEnd records an end of the connection that this side did not cause.
func (c *conn) recordEnd(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
}

// mark returns the number of bytes written.
func (c *conn) mark() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// received returns the number of bytes read.
func (c *conn) received() int64 { return c.bytesRead.Load() }

// wrote reports whether any byte may have been written since mark. A write in progress counts.
func (c *conn) wrote(mark int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writing || c.written > mark
}

// seal ends all writing and reports whether any byte may have been written since mark. A false
// result is final, because a sealed connection writes no more.
func (c *conn) seal(mark int64) bool {
	c.mu.Lock()
	c.sealed = true
	c.mu.Unlock()
	return c.wrote(mark)
}

// lost reports whether the connection itself failed.
func (c *conn) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}
