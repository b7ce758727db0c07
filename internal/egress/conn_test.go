package egress

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSealedConnectionTellsWhatMayHaveLeft(t *testing.T) {
	t.Parallel()
	t.Run("NothingSinceTheMark", func(t *testing.T) {
		t.Parallel()
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &conn{Conn: near}
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
		c := &conn{Conn: near}
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
	c := &conn{Conn: plain}
	require.NoError(t, c.Close())
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	require.False(t, c.lost())
}
