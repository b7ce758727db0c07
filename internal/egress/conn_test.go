package egress

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

func TestSealReportsWhetherBytesMayHaveLeft(t *testing.T) {
	t.Parallel()
	t.Run("NothingSinceTheMark", func(t *testing.T) {
		t.Parallel()
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := overTCP(near)
		go func() { _, _ = io.ReadFull(far, make([]byte, 3)) }()
		_, err := c.Write([]byte("abc"))
		require.NoError(t, err)
		require.EqualValues(t, 3, c.mark())
		require.False(t, c.seal(c.mark()))
		require.True(t, c.seal(0))
		_, err = c.Write([]byte("more"))
		require.ErrorIs(t, err, errSealed)
	})
	t.Run("WriteUnderWay", func(t *testing.T) {
		t.Parallel()
		near, far := net.Pipe()
		c := overTCP(near)
		done := make(chan error)
		go func() {
			_, err := c.Write([]byte("abc")) // a pipe keeps a write waiting until all of it is read
			done <- err
		}()
		_, err := far.Read(make([]byte, 1))
		require.NoError(t, err)
		require.True(t, c.seal(0))
		require.NoError(t, far.Close())
		require.Error(t, <-done)
		require.True(t, c.lost())
		require.NoError(t, near.Close())
	})
}

func TestOwnCloseIsNoLoss(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	plain, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	c := overTCP(plain)
	require.NoError(t, c.Close())
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	require.False(t, c.lost())
}

// overlaid is something over a connection, such as a TLS session.
type overlaid struct{ net.Conn }

func (o overlaid) NetConn() net.Conn { return o.Conn }

// readAheadConn is a session that consumes the first byte and reads on, as TLS does with its own
// records.
type readAheadConn struct {
	net.Conn

	taken *bool
}

func (s readAheadConn) NetConn() net.Conn { return s.Conn }

func (s readAheadConn) Read(p []byte) (int, error) {
	if !*s.taken {
		if _, err := s.Conn.Read(make([]byte, 1)); err != nil {
			return 0, err
		}
		*s.taken = true
	}
	return s.Conn.Read(p)
}

// TestAnIdleConnectionIsGoodWhileNothingCame: an idle connection with unread bytes is not reused,
// because they would be read as the next answer.
func TestAnIdleConnectionIsGoodWhileNothingCame(t *testing.T) {
	t.Parallel()
	overs := map[string]func(net.Conn) *conn{
		"TCP":       overTCP,
		"TLS":       func(plain net.Conn) *conn { return overTLS(overlaid{plain}) },
		"TLSItsOwn": func(plain net.Conn) *conn { return overTLS(readAheadConn{plain, new(bool)}) },
	}
	for name, test := range map[string]struct {
		over  string
		come  func(far net.Conn) error
		quiet bool
	}{
		"Bytes":            {"TCP", speak("a"), false},
		"TheEnd":           {"TCP", net.Conn.Close, false},
		"BytesOverTLS":     {"TLS", speak("a"), false},
		"TheEndOverTLS":    {"TLS", net.Conn.Close, false},
		"TheSessionsOwn":   {"TLSItsOwn", speak("a"), true},
		"MoreThanItsOwn":   {"TLSItsOwn", speak("ab"), false},
		"TheEndOfASession": {"TLSItsOwn", net.Conn.Close, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := connected(t)
			c := overs[test.over](near)
			require.True(t, c.quiet())
			require.NoError(t, test.come(far))
			waittest.Until(t, c.unread)
			require.Equal(t, test.quiet, c.quiet())
		})
	}
}

// TestPendingTLSRecordsMakeAConnectionNotQuiet leaves a record, or the rest of one, in the TLS
// session and not in the socket. It would count as the answer to the next request.
func TestPendingTLSRecordsMakeAConnectionNotQuiet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		over  func(net.Conn) *conn // of a target, or of the proxy over which it is spoken to
		texts []string
		quiet bool
	}{
		"RestOfARecord":         {overTLS, []string{"ab"}, false},
		"AnotherRecord":         {overTLS, []string{"a", "b"}, false},
		"Nothing":               {overTLS, []string{"a"}, true},
		"RestOfARecordOfAProxy": {overTCP, []string{"ab"}, false},
		"NothingOfAProxys":      {overTCP, []string{"a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate, roots := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
			near, far := connected(t)
			wire := &gathering{Conn: far}
			target, greeted := tls.Server(wire, serving(certificate)), make(chan error, 1)
			go func() { greeted <- target.HandshakeContext(t.Context()) }()
			session := tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "127.0.0.1"})
			require.NoError(t, session.HandshakeContext(t.Context()))
			require.NoError(t, <-greeted)

			wire.gathers = true
			for _, text := range test.texts {
				_, err := target.Write([]byte(text))
				require.NoError(t, err)
			}
			_, err := far.Write(wire.gathered)
			require.NoError(t, err)
			c := test.over(session)
			_, err = io.ReadFull(c, make([]byte, 1))
			require.NoError(t, err)
			require.Equal(t, test.quiet, c.quiet())
		})
	}
}

// gathering buffers writes and sends them in one piece.
type gathering struct {
	net.Conn

	gathers  bool
	gathered []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	if !g.gathers {
		return g.Conn.Write(p)
	}
	g.gathered = append(g.gathered, p...)
	return len(p), nil
}

func speak(text string) func(net.Conn) error {
	return func(far net.Conn) error {
		_, err := far.Write([]byte(text))
		return err
	}
}

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	near, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = near.Close() })
	far, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}
