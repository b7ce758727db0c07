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

// Limits of slow clients, for every listener. Request bodies are small and known headers are short,
// so that only slow or hostile clients reach these limits.
const (
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 15 * time.Second
	WriteTimeout      = 30 * time.Second // from the end of the header; streams are exempt
	MaxHeaderBytes    = 64 << 10

	// closeTimeout bounds requests under way at shutdown. API requests take milliseconds.
	closeTimeout = 2 * time.Second

	// idleTimeout is the keep-alive timeout of an idle connection.
	idleTimeout = 2 * time.Minute

	// adminWriteTimeout is for the admin listener, because a profile may take minutes.
	adminWriteTimeout = 10 * time.Minute

	// maxStreams bounds the concurrent requests on one HTTP/2 connection.
	maxStreams = 100
)

// Server serves HTTP on one listener.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens a TCP listener. setting is the name of the setting or flag that chooses the address;
// errors name it.
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

// NewServer returns a server that is not serving yet. It owns the listener.
//
// It accepts HTTP/2 without TLS with prior knowledge, so that a proxy that terminates TLS need not
// fall back to HTTP/1.1. It does not support the upgrade from HTTP/1.1.
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
		// At debug level, because clients cause these errors: broken handshakes and the like.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}
}

// endChunked closes the connection after a request with a chunked body. This prevents request
// smuggling. Such a request may also have had a Content-Length, which net/http removes before a
// handler can see it. A proxy that believed the Content-Length would take the rest of the body for
// another client's request. RFC 9112, section 6.1, therefore requires the close.
func endChunked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// OnShutdown registers a function that runs when the server begins to shut down, for long-lived
// requests such as streams.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// Close closes the listener of a server, whether it has served or not. After Run it does nothing.
func (s *Server) Close() { _ = s.http.Close(); _ = s.listener.Close() }

// Run serves until ctx ends, then waits at most closeTimeout for requests under way.
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
		// Requests that are still running have used up closeTimeout.
		_ = s.http.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
	}
	return nil
}

// BaseURL returns the URL at which this machine reaches a listener. The loopback address replaces
// an unspecified one.
func BaseURL(address net.Addr) string {
	return "http://" + reachable(address.String())
}

// reachable returns the host:port at which this machine reaches a listener's address.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		// A listener on [::] usually accepts IPv4 too, and machines without IPv6 have no ::1.
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
