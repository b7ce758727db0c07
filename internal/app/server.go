package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// The bounds of what a client may drag out. No request to any of our listeners has a body that takes long to send, and no header that we know
// is long.
const (
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 15 * time.Second
	WriteTimeout      = 30 * time.Second // from the end of the header; streams are exempt
	MaxHeaderBytes    = 64 << 10

	// closeTimeout is how long requests may go on when a server stops. API requests take milliseconds.
	closeTimeout = 2 * time.Second

	// idleTimeout is how long a connection is kept between requests.
	idleTimeout = 2 * time.Minute

	// adminWriteTimeout is for the admin listener, where a profile may be taken for some minutes.
	adminWriteTimeout = 10 * time.Minute

	// maxStreams bounds the requests that one HTTP/2 connection has under way.
	maxStreams = 100
)

// Server serves one listener.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens a TCP listener. setting is the name under which a user can choose another address.
func Listen(ctx context.Context, setting, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("another program listens on %s already: stop it, or choose another address with %s", address, setting)
	case err != nil:
		return nil, fmt.Errorf("listening on %s (%s): %w", address, setting, err)
	}
	return l, nil
}

// NewServer returns a server that has not begun to serve. It owns the listener.
//
// It speaks HTTP/2 without TLS to clients that begin with it, such as proxies: whoever ends TLS before us need not fall back to
// HTTP/1.1. There is no upgrade in mid-connection.
func NewServer(l net.Listener, h http.Handler, logger *slog.Logger) *Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &Server{listener: l, http: &http.Server{
		Handler:           endChunked(h),
		ReadHeaderTimeout: ReadHeaderTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       idleTimeout,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // Broken handshakes and the like: the clients' business.
	}}
}

// endChunked ends the connection after a request whose body says its length as it comes. The header may have named another length too, which
// net/http takes out before anybody can refuse it: a proxy that believed that one would take what follows on the connection for another
// client's request, where RFC 9112 has the connection end.
func endChunked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// OnShutdown has a function called when the server begins to end, for requests that last until they are told to.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// Close gives up the listener of a server that may never have run. After a run it does nothing.
func (s *Server) Close() { _ = s.http.Close(); _ = s.listener.Close() }

// Run serves until ctx ends, then lets the requests under way end.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.http.Shutdown(closing); err != nil {
		_ = s.http.Close() // Whoever still waits has had the time.
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
	}
	return nil
}

// BaseURL returns the URL under which this machine reaches a listener: a listener on every address is reached on the loopback one.
func BaseURL(address net.Addr) string {
	return "http://" + reachable(address.String())
}

// reachable returns the host:port to dial for an address that something listens on.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		// A listener on [::] usually takes IPv4 too, and machines without IPv6 have no ::1.
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
