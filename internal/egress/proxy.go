package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// errProxy is a failed CONNECT at the proxy.
var errProxy = errors.New("the proxy did not connect to the target")

// proxy is the operator's forward proxy. Calls go through it by CONNECT to addresses that the
// policy has permitted.
type proxy struct {
	address    string // host and port
	host       string
	secure     bool
	credential string // Proxy-Authorization header; empty: none
}

func newProxy(u *url.URL) *proxy {
	if u == nil {
		return nil
	}
	p := &proxy{
		address: net.JoinHostPort(u.Hostname(), portOf(u)),
		host:    u.Hostname(),
		secure:  u.Scheme == "https",
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.credential = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p
}

// tunnel returns a connection through the proxy to address, an IP address and port.
func (p *proxy) tunnel(ctx context.Context, address string) (net.Conn, error) {
	c, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = p.ask(c, address)
	if !stop() && err == nil { // ctx ended, and its deadline may be set later.
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return c, nil
}

func (p *proxy) open(ctx context.Context) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil || !p.secure {
		return c, err
	}
	session := tls.Client(c, &tls.Config{ServerName: p.host, MinVersion: tls.VersionTLS12})
	if err := session.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return session, nil
}

// ask sends CONNECT for address over c and checks the answer.
func (p *proxy) ask(c net.Conn, address string) error {
	request := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if p.credential != "" {
		request += "Proxy-Authorization: " + p.credential + "\r\n"
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return err
	}
	reader := bufio.NewReader(io.LimitReader(c, maxHeaderBytes))
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return errors.Join(errProxy, err)
	}
	_ = answer.Body.Close()
	// Bytes after the answer are an error, because the target must not send first.
	if answer.StatusCode != http.StatusOK || reader.Buffered() > 0 {
		return errProxy
	}
	return nil
}
