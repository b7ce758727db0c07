package egress

import (
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSealedConnectionTellsWhatMayHaveLeft(t *testing.T) {
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

// TestAKeptConnectionIsReadToItsEndFirst: a request waits until whoever reads has asked for more than there was, or has hung up.
func TestAKeptConnectionIsReadToItsEndFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c := overTCP(near)
		read := make(chan struct{})
		go func() {
			for range read {
				_, _ = c.Read(make([]byte, 1))
			}
		}()
		rested := make(chan struct{})
		rest := func() {
			c.rest(t.Context())
			rested <- struct{}{}
		}
		holds := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-rested:
				require.Fail(t, why)
			default:
			}
		}

		go rest()
		holds("nobody has read yet")
		read <- struct{}{}
		<-rested
		_, err := far.Write([]byte("a")) // The reader has it, and has not asked for more.
		require.NoError(t, err)
		synctest.Wait()
		go rest()
		holds("a byte came that nobody asked for")
		read <- struct{}{}
		<-rested
		_, err = far.Write([]byte("b"))
		require.NoError(t, err)
		synctest.Wait()
		go rest()
		holds("another byte came")
		require.NoError(t, c.Close())
		<-rested
		close(read)
	})
}

// asleep is a connection whose reader does not run when something comes, as on a busy machine.
type asleep struct {
	*net.TCPConn

	awake chan struct{}
}

func (a *asleep) Read(p []byte) (int, error) {
	<-a.awake
	return a.TCPConn.Read(p)
}

// overlaid is something over a connection, such as a TLS session.
type overlaid struct{ net.Conn }

func (o overlaid) NetConn() net.Conn { return o.Conn }

// TestWhatCameAndIsNotReadKeepsARequestWaiting: whoever reads has asked for more, and does not run when it comes.
func TestWhatCameAndIsNotReadKeepsARequestWaiting(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(net.Conn) *conn{
		"TCP": overTCP,
		"TLS": func(plain net.Conn) *conn { return overTLS(overlaid{plain}) },
	} {
		for what, come := range map[string]func(net.Conn) error{
			"Bytes":  func(far net.Conn) error { _, err := far.Write([]byte("a")); return err },
			"TheEnd": func(far net.Conn) error { return far.Close() },
		} {
			t.Run(name+what, func(t *testing.T) {
				t.Parallel()
				near, far := connected(t)
				reader := &asleep{near.(*net.TCPConn), make(chan struct{})}
				c := over(reader)
				read := make(chan struct{})
				go func() {
					defer close(read)
					_, _ = c.Read(make([]byte, 1))
				}()
				c.rest(t.Context())
				require.True(t, c.reading.Load())
				require.False(t, c.unread())

				require.NoError(t, come(far))
				require.Eventually(t, c.unread, 30*time.Second, time.Millisecond)
				patient, cancel := context.WithCancel(t.Context())
				rested := make(chan struct{})
				go func() {
					defer close(rested)
					c.rest(patient)
				}()
				select {
				case <-rested:
					require.Fail(t, "what came is not read")
				case <-time.After(10 * restLook):
				}
				cancel()
				<-rested
				close(reader.awake)
				<-read
				require.NoError(t, c.Close())
				c.rest(t.Context())
			})
		}
	}
}

// TestARequestWaitsForAKeptConnectionAlone: of a fresh one nobody has read yet, and there is nothing behind an answer.
func TestARequestWaitsForAKeptConnectionAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		for _, kept := range []bool{false, true} {
			at := (&exchange{}).attempt()
			ctx, giveUp := context.WithTimeout(t.Context(), time.Minute)
			at.gotConn(ctx, httptrace.GotConnInfo{Conn: overTCP(near), Reused: kept})
			require.Equal(t, kept, ctx.Err() != nil)
			giveUp()
		}
	})
}

// swallowing is a session that takes the first byte for itself and reads on, as TLS does with what is its own.
type swallowing struct{ *asleep }

func (s *swallowing) Read(p []byte) (int, error) {
	if _, err := s.asleep.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	return s.TCPConn.Read(p)
}

// TestWhatIsTheSessionsOwnKeepsNobodyWaiting: nobody tells of it, and the connection is good.
func TestWhatIsTheSessionsOwnKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	near, far := connected(t)
	reader := &swallowing{&asleep{near.(*net.TCPConn), make(chan struct{})}}
	c := overTLS(reader)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = c.Read(make([]byte, 1))
	}()
	c.rest(t.Context())
	_, err := far.Write([]byte("a"))
	require.NoError(t, err)
	require.Eventually(t, c.unread, 30*time.Second, time.Millisecond)
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		c.rest(t.Context())
	}()
	close(reader.awake)
	select {
	case <-rested:
	case <-time.After(10 * time.Second):
		require.Fail(t, "it was read long ago")
	}
	require.NoError(t, c.Close())
	<-read
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
