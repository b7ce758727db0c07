package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// piped returns a connection, and its other end.
func piped() (c *conn, far net.Conn) {
	near, far := net.Pipe()
	return overTCP(near), far
}

// hungUp reports whether a connection is closed, by its other end.
func hungUp(far net.Conn) bool {
	_ = far.SetWriteDeadline(time.Now().Add(-time.Second))
	_, err := far.Write([]byte("a"))
	return errors.Is(err, io.ErrClosedPipe)
}

func TestTheConnectionThatWasUsedLastIsTakenFirst(t *testing.T) {
	t.Parallel()
	k := newIdlePool()
	first, _ := piped()
	second, _ := piped()
	secure, _ := piped()
	k.keep(remote{address: "a:1"}, first)
	k.keep(remote{address: "a:1"}, second)
	k.keep(remote{address: "a:1", secure: true}, secure)
	require.Same(t, second, k.take(remote{address: "a:1"}))
	require.Same(t, first, k.take(remote{address: "a:1"}))
	require.Nil(t, k.take(remote{address: "a:1"}))
	require.Nil(t, k.take(remote{address: "b:1"}))
	require.Same(t, secure, k.take(remote{address: "a:1", secure: true}))
	k.close()
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newIdlePool()
		old, oldFar := piped()
		used, usedFar := piped()
		k.keep(remote{address: "a:1"}, old)
		k.keep(remote{address: "b:1"}, used)
		time.Sleep(idleConnTimeout - time.Second)
		require.Same(t, used, k.take(remote{address: "b:1"}))
		k.keep(remote{address: "b:1"}, used)
		time.Sleep(time.Second + idleCheckPeriod)
		synctest.Wait()
		require.True(t, hungUp(oldFar))
		require.False(t, hungUp(usedFar))
		require.Nil(t, k.take(remote{address: "a:1"}))

		time.Sleep(idleConnTimeout + idleCheckPeriod)
		synctest.Wait()
		require.True(t, hungUp(usedFar))
		require.Nil(t, k.watch, "nobody looks at nothing")
		require.Empty(t, k.remotes)

		again, againFar := piped()
		k.keep(remote{address: "a:1"}, again)
		time.Sleep(idleConnTimeout + idleCheckPeriod)
		synctest.Wait()
		require.True(t, hungUp(againFar))
	})
}

func TestConnectionsClosedByTheTargetAreDropped(t *testing.T) {
	t.Parallel()
	k := newIdlePool()
	near, far := connected(t)
	c := overTCP(near)
	k.keep(remote{address: "a:1"}, c)
	k.look()
	require.Len(t, k.list(), 1)
	require.NoError(t, far.Close())
	waittest.Until(t, c.unread)
	k.look()
	require.Empty(t, k.list())
	_, err := near.Write([]byte("a"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestKeptConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	k := newIdlePool()
	defer k.close()
	var fars []net.Conn
	keep := func(to string) {
		c, far := piped()
		k.keep(remote{address: to}, c)
		fars = append(fars, far)
	}
	for range idleConnsPerHost + 1 {
		keep("a:1")
	}
	require.True(t, hungUp(fars[0]), "of one server, the one that was not used for the longest goes")
	require.False(t, hungUp(fars[1]))
	for i := range idleConns - idleConnsPerHost {
		keep(fmt.Sprint("b:", i))
	}
	require.False(t, hungUp(fars[1]))
	keep("c:1")
	require.True(t, hungUp(fars[1]), "of all, likewise")
	require.False(t, hungUp(fars[2]))
	require.Len(t, k.list(), idleConns)
}
