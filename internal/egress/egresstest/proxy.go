package egresstest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// StartProxy serves a CONNECT proxy that records each request. It answers with status, and connects
// only if status is "200 OK".
func StartProxy(tb testing.TB, status string) *Target {
	tb.Helper()
	return Start(tb, func(c *Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c.conn))
		if err != nil {
			return
		}
		c.target.record(Request{
			Conn:   c.number,
			Method: r.Method,
			URI:    r.RequestURI,
			Header: r.Header,
		})
		if status != "200 OK" {
			_, _ = fmt.Fprintf(c.conn, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
			return
		}
		to, err := new(net.Dialer).DialContext(tb.Context(), "tcp", r.RequestURI)
		if err != nil {
			return
		}
		defer to.Close()
		_, _ = io.WriteString(c.conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(c.conn, to)
			c.conn.Close()
		}()
		_, _ = io.Copy(to, c.conn)
	})
}
