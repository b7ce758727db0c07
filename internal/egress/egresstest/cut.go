package egresstest

import (
	"net"
	"sync"
)

// Cut is a wire that can be cut: the connection that reads the last of a number of bytes is closed, once.
type Cut struct {
	mu    sync.Mutex
	armed bool
	rest  int
}

// After arms the cut: n more bytes are read, by whichever connection they come, TLS records included.
func (c *Cut) After(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.rest = true, n
}

// took returns how many of n bytes that came count before the cut, and whether it is now.
func (c *Cut) took(n int) (counted int, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return n, false
	}
	if n <= c.rest {
		c.rest -= n
		return n, false
	}
	c.armed = false
	return c.rest, true
}

// listener cuts the connections that it accepts.
type listener struct {
	net.Listener

	cut *Cut
}

// Accept returns a connection that ends with the cut.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: c, cut: l.cut}, nil
}

type cutConn struct {
	net.Conn

	cut *Cut
}

// Read reads at most as far as the cut.
func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	counted, now := c.cut.took(n)
	if now {
		c.Close()
		return counted, net.ErrClosed
	}
	return n, err
}
