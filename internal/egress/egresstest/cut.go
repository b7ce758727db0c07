package egresstest

import (
	"net"
	"sync"
)

// Cut closes one connection after a number of bytes, to simulate a network failure.
type Cut struct {
	mu    sync.Mutex
	armed bool
	rest  int
}

// After arms the cut: the connection that reads past n more bytes is closed. Bytes of all
// connections count, including TLS records.
func (c *Cut) After(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.rest = true, n
}

// took returns the number of the n new bytes that lie before the cut, and whether to cut now.
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

// listener applies the cut to accepted connections.
type listener struct {
	net.Listener

	cut *Cut
}

// Accept returns a connection with the cut.
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

// Read reads up to the cut.
func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	counted, now := c.cut.took(n)
	if now {
		c.Close()
		return counted, net.ErrClosed
	}
	return n, err
}
