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
	alertTime = 100 * time.Millisecond // how long a failed write waits for the reason, at most
	tidyTime  = time.Millisecond       // how long a TLS session may take to read what is there already
)

// conn is a connection that knows whether a request may have left through it. For https it lies over the TLS session, so that
// only bytes of requests count and the session's own do not.
type conn struct {
	net.Conn

	frames  *frames         // of HTTP/2; nil: the connection speaks HTTP/1.1
	socket  syscall.RawConn // under it; nil: there is none
	session bool            // a TLS session lies between it and the socket, be it that of a proxy

	heard    atomic.Int64 // bytes that came
	answered atomic.Bool  // to a request, one of them at least

	mu      sync.Mutex
	written int64     // bytes that were handed to the connection
	writing bool      // a write is under way: how much of it left is not known yet
	sealed  bool      // nothing may be written any more
	failed  bool      // the connection itself ended, by an error or by the peer
	sendBy  time.Time // when the request that comes next may begin at the latest; zero: at any time
	alert   error     // by which the target ended the TLS session before it answered anything; nil: it did not

	ended chan struct{} // of a TLS session: closed once nothing more can be read
}

// overTCP returns the connection over a plain one.
func overTCP(plain net.Conn) *conn {
	socket, session := socketOf(plain)
	return &conn{Conn: plain, socket: socket, session: session}
}

// overTLS returns the connection over a TLS session.
func overTLS(session net.Conn) *conn {
	c := overTCP(session)
	c.ended = make(chan struct{})
	return c
}

// Write writes p, unless the connection is sealed.
func (c *conn) Write(p []byte) (int, error) {
	if !c.beginWrite() {
		return 0, errSealed
	}
	n, err := c.Conn.Write(p)
	c.endWrite(n)
	c.note(err)
	if err != nil && c.frames != nil && c.lost() {
		c.awaitAlert()
	}
	return n, err
}

// awaitAlert waits until whoever reads beside those who write has seen why the target ended the TLS session: its last word may still be on its
// way up when a write fails.
func (c *conn) awaitAlert() {
	timer := time.NewTimer(alertTime)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
}

// Read reads into p.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(err)
	c.heard.Add(int64(n))
	if err != nil && c.ended != nil {
		c.endRead(err)
	}
	if c.frames == nil {
		return n, err
	}
	if !c.frames.note(p[:n]) {
		return 0, &fault{reason: ProtocolError, err: errFlood}
	}
	return n, err
}

// quiet reports whether nothing came on a connection that is idle, be it the end. What a TLS session keeps to itself is read. It may also hold
// what the target sent beyond the last answer, where no socket shows it: it gives that out without waiting.
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

// unread reports whether something came, be it the end, that nobody has read.
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

// socketOf returns the socket under a connection, nil where there is none, and whether sessions lie over it.
func socketOf(c net.Conn) (socket syscall.RawConn, session bool) {
	for {
		switch at := c.(type) {
		case interface{ NetConn() net.Conn }:
			c, session = at.NetConn(), true
		case syscall.Conn:
			socket, _ = at.SyscallConn() // Of a closed connection there is none.
			return socket, session
		default:
			return nil, session
		}
	}
}

// endRead remembers an alert of the target. It comes here, and not in the handshake, where the target checks the certificate of the client:
// in TLS 1.3 the session is complete for the client before.
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

// refused returns the alert by which the target ended the TLS session before it answered anything, or nil.
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

// overdue reports whether the request that comes next may not begin any more. The caller holds mu.
func (c *conn) overdue() bool { return !c.sendBy.IsZero() && time.Now().After(c.sendBy) }

// begin says that a request comes next, and when it may begin at the latest.
func (c *conn) begin(sendBy time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendBy = sendBy
}

// note remembers an end of the connection that was not our own doing.
func (c *conn) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
}

// mark returns how much was written so far.
func (c *conn) mark() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// received returns how much came so far.
func (c *conn) received() int64 { return c.heard.Load() }

// wrote reports whether anything may have been written since mark. A write under way counts as written.
func (c *conn) wrote(mark int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writing || c.written > mark
}

// seal ends all writing and reports whether anything may have been written since mark. The answer is final: what it denies cannot
// happen later.
func (c *conn) seal(mark int64) bool {
	c.mu.Lock()
	c.sealed = true
	c.mu.Unlock()
	return c.wrote(mark)
}

// lost reports whether the connection itself ended.
func (c *conn) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}
