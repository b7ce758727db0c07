package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBusyPortNamesTheSetting(t *testing.T) {
	t.Parallel()
	first, err := Listen(t.Context(), "--listen", "127.0.0.1:0")
	require.NoError(t, err)
	defer first.Close()

	_, err = Listen(t.Context(), "RUBATO_ADMIN_LISTEN", first.Addr().String())

	require.EqualError(t, err, "another program listens on "+first.Addr().String()+
		" already: stop it, or choose another address with RUBATO_ADMIN_LISTEN")
}

func TestInvalidListenAddressIsAnError(t *testing.T) {
	t.Parallel()
	_, err := Listen(t.Context(), "--listen", "192.0.2.1:80")
	require.ErrorContains(t, err, "listening on 192.0.2.1:80 (--listen)")
}

func TestServerLetsRequestsEndBeforeItStops(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	l, err := Listen(t.Context(), "test", "127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "served")
	}), slog.New(slog.DiscardHandler))

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	answer := make(chan string, 1)
	go func() {
		_, text, err := probe(context.WithoutCancel(ctx), BaseURL(l.Addr()))
		if err != nil {
			text = err.Error()
		}
		answer <- text
	}()

	<-arrived
	stop()
	select {
	case <-ended:
		t.Fatal("the server stopped while a request was under way")
	default:
	}
	close(release)
	require.Equal(t, "served", <-answer)
	require.NoError(t, <-ended)
	_, _, err = probe(t.Context(), BaseURL(l.Addr()))
	require.Error(t, err, "nobody listens any more")
}

// TestChunkedRequestClosesItsConnection sends a second request behind the shorter of two lengths.
// Behind the one length that an honest request has, it is answered.
func TestChunkedRequestClosesItsConnection(t *testing.T) {
	t.Parallel()
	l, err := Listen(t.Context(), "test", "127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "["+r.URL.Path+"]")
	}), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { stop(); require.NoError(t, <-ended) }()

	const next = "GET /second HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	for header, second := range map[string]bool{
		"Content-Length: 5\r\n\r\n0\r\n\r\n":                               true,
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": false,
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n": false,
	} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(c, "POST /first HTTP/1.1\r\nHost: h\r\n"+header+next)
		require.NoError(t, err)
		all, err := io.ReadAll(c)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Contains(t, string(all), "[/first]")
		require.Equal(t, second, strings.Contains(string(all), "[/second]"), "%q", header)
	}
}

func TestServerReturnsTheErrorOfItsListener(t *testing.T) {
	t.Parallel()
	l, err := Listen(t.Context(), "test", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	err = NewServer(l, http.NotFoundHandler(), slog.New(slog.DiscardHandler)).Run(t.Context())

	require.ErrorContains(t, err, "serving on 127.0.0.1:")
}

func TestBaseURLCanBeReached(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:80":    "http://127.0.0.1:80",
		"0.0.0.0:81":      "http://127.0.0.1:81",
		"[::]:82":         "http://localhost:82",
		"[::1]:83":        "http://[::1]:83",
		"198.51.100.7:84": "http://198.51.100.7:84",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		require.Equal(t, want, BaseURL(tcp))
	}
	require.Equal(t, "127.0.0.1:85", reachable(":85"))
}

func TestServerLimitsSlowClients(t *testing.T) {
	t.Parallel()
	l, err := Listen(t.Context(), "test", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := NewServer(l, http.NotFoundHandler(), slog.New(slog.DiscardHandler)).http
	require.Equal(t, ReadHeaderTimeout, s.ReadHeaderTimeout)
	require.Equal(t, ReadTimeout, s.ReadTimeout)
	require.Equal(t, WriteTimeout, s.WriteTimeout)
	require.Equal(t, idleTimeout, s.IdleTimeout)
	require.Equal(t, MaxHeaderBytes, s.MaxHeaderBytes)
	require.Equal(t, maxStreams, s.HTTP2.MaxConcurrentStreams)
}

func TestServerSpeaksBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	l, err := Listen(t.Context(), "test", "127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for want, set := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		protocols := new(http.Protocols)
		set(protocols)
		transport := &http.Transport{Protocols: protocols}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, BaseURL(l.Addr()), nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(r)
		require.NoError(t, err, want)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, string(text))
		transport.CloseIdleConnections()
	}
	stop()
	require.NoError(t, <-ended)
}
