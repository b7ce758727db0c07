package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// dialer connects to targets permitted by the policy. Name servers are exempt from the policy,
// because the resolver opens its own sockets.
type dialer struct {
	policy   *Policy
	resolver *net.Resolver
	tls      *tls.Config
	limits   Limits
	proxy    *proxy   // nil: none
	streams  *streams // HTTP/2 sessions; takes over new ones
}

// dial connects to a remote and records its phases in watch. It stops at the first forbidden
// address of a name, because an attempt at the next address would let a name server probe the
// internal network.
func (d *dialer) dial(ctx context.Context, to remote, watch *stopwatch) (*conn, error) {
	ctx = watch.dialing(ctx)
	if to.secure {
		return d.dialTLS(ctx, to.address, watch)
	}
	c, err := d.connect(ctx, to.address)
	if err != nil {
		return nil, err
	}
	return overTCP(c), nil
}

// dialTLS connects to address and verifies the target's certificate for the host. An HTTP/2
// connection goes to streams, and the error is errUpgraded.
func (d *dialer) dialTLS(ctx context.Context, address string, watch *stopwatch) (*conn, error) {
	plain, err := d.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	watch.enter(handshaking)
	session, err := d.secure(ctx, plain, address)
	if err != nil {
		plain.Close()
		return nil, handshakeFault(err)
	}
	c := overTLS(session)
	if session.ConnectionState().NegotiatedProtocol != protocolH2 {
		d.streams.setProtocol(address, true, nil)
		return c, nil
	}
	if err := d.streams.raise(ctx, address, c); err != nil {
		_ = c.Close()
		return nil, &fault{reason: ConnectError, err: err}
	}
	return nil, errUpgraded
}

func (d *dialer) secure(ctx context.Context, plain net.Conn, address string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.TLS)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, host)
	cfg.NextProtos = d.streams.offers(address)
	session := tls.Client(plain, cfg)
	return session, session.HandshakeContext(ctx)
}

func (d *dialer) connect(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &fault{reason: ConnectError, err: err}
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if d.proxy != nil {
		return d.connectThrough(ctx, host, address)
	}
	var denial atomic.Pointer[Denial]
	plain := net.Dialer{
		Timeout:  d.limits.Connect,
		Resolver: d.resolver,
		ControlContext: func(ctx context.Context, network, address string, _ syscall.RawConn) error {
			if found := d.policy.judge(ctx, d.resolver, host, network, address); found != "" {
				denial.Store(&found)
				giveUp()
				return errDenied
			}
			return nil
		},
	}
	c, err := plain.DialContext(ctx, d.policy.network(host), address)
	switch found := denial.Load(); {
	case found != nil:
		if err == nil {
			c.Close()
		}
		return nil, denied(*found)
	case err != nil:
		return nil, dialFault(err)
	}
	return c, nil
}

// connectThrough connects to address through the proxy. The proxy gets the checked IP address
// instead of the name, because it could resolve the name to another address.
func (d *dialer) connectThrough(ctx context.Context, host, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.Connect)
	defer cancel()
	_, port, _ := net.SplitHostPort(address)
	found, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, dialFault(err)
	}
	for i, addr := range found {
		found[i] = addr.Unmap()
		if denial := d.policy.judge(ctx, d.resolver, host, "tcp", net.JoinHostPort(found[i].String(), port)); denial != "" {
			return nil, denied(denial)
		}
	}
	err = errProxy
	for _, addr := range found {
		var c net.Conn
		if c, err = d.proxy.tunnel(ctx, net.JoinHostPort(addr.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, &fault{reason: ConnectError, err: err}
}

func denied(d Denial) error {
	return &fault{
		reason: EgressDenied,
		err:    errDenied,
		denial: d,
	}
}

// handshakeFault distinguishes a failed TLS negotiation from a connection that ended during the
// handshake. The latter is a ConnectError, because it is a network failure and a retry may succeed.
func handshakeFault(err error) error {
	_, lost := errors.AsType[syscall.Errno](err)
	if lost || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &fault{reason: ConnectError, err: errors.Join(errHandshake, err)}
	}
	return &fault{reason: TLSError, err: err}
}

func dialFault(err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &fault{reason: DNSError, err: err}
	}
	return &fault{reason: ConnectError, err: err}
}
