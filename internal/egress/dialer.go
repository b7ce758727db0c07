package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout      = 10 * time.Second // resolving and connecting
	handshakeTimeout = 10 * time.Second
)

// dialer connects to targets that the policy permits. Name servers are asked through the resolver's own sockets, which the
// policy does not judge.
type dialer struct {
	policy   *Policy
	resolver *net.Resolver
	tls      *tls.Config
}

// callerKey finds the context of the exchange in the context of a dial: the transport detaches the two, but a dial must not
// outlive the exchange that asked for it.
type callerKey struct{}

func withCaller(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, ctx)
}

// attach returns ctx, ended also by the end of its exchange.
func attach(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	caller, ok := ctx.Value(callerKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(caller, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// dial connects to address. The first address of a name that may not be called ends the attempt: trying the next one would let
// a name server probe what is behind us.
func (d *dialer) dial(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := d.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// dialTLS connects to address and verifies that the target is the host that was asked for.
func (d *dialer) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := d.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	ctx, detach := attach(ctx)
	defer detach()
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		cfg := d.tls.Clone()
		cfg.ServerName = host
		session := tls.Client(c, cfg)
		if err = handshake(ctx, session); err == nil {
			return &conn{Conn: session}, nil
		}
	}
	c.Close()
	return nil, &fault{reason: TLSError, err: err}
}

func (d *dialer) connect(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &fault{reason: ConnectError, err: err}
	}
	ctx, detach := attach(ctx)
	defer detach()
	var denied atomic.Bool
	plain := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: d.resolver,
		ControlContext: func(ctx context.Context, network, address string, raw syscall.RawConn) error {
			if err := d.policy.control(ctx, network, address, raw); err != nil {
				denied.Store(true)
				detach()
				return err
			}
			return nil
		},
	}
	c, err := plain.DialContext(ctx, d.policy.network(host), address)
	switch {
	case denied.Load():
		if err == nil {
			c.Close()
		}
		return nil, &fault{reason: EgressDenied, err: errDenied}
	case err != nil:
		return nil, dialFault(err)
	}
	return c, nil
}

func dialFault(err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &fault{reason: DNSError, err: err}
	}
	return &fault{reason: ConnectError, err: err}
}
