package egress

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection that knows whether a request may have left through it. For https it lies over the TLS session, so that
// only bytes of requests count and the session's own do not.
type conn struct {
	net.Conn

	frames *frames // of HTTP/2; nil: the connection speaks HTTP/1.1

	heard atomic.Int64 // bytes that came

	mu      sync.Mutex
	written int64     // bytes that were handed to the connection
	writing bool      // a write is under way: how much of it left is not known yet
	sealed  bool      // nothing may be written any more
	failed  bool      // the connection itself ended, by an error or by the peer
	sendBy  time.Time // when the request that comes next may begin at the latest; zero: at any time
}

// Write writes p, unless the connection is sealed.
func (c *conn) Write(p []byte) (int, error) {
	if !c.beginWrite() {
		return 0, errSealed
	}
	n, err := c.Conn.Write(p)
	c.endWrite(n)
	c.note(err)
	return n, err
}

// Read reads into p.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(err)
	c.heard.Add(int64(n))
	if c.frames == nil {
		return n, err
	}
	if !c.frames.note(p[:n]) {
		return 0, &fault{reason: ProtocolError, err: errFlood}
	}
	return n, err
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

// seal ends all writing and reports whether anything may have been written since mark. The answer is final: what it denies can
// not happen later. A write under way counts as written.
func (c *conn) seal(mark int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.writing || c.written > mark
}

// lost reports whether the connection itself ended.
func (c *conn) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}
