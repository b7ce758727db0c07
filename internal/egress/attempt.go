package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

// Fixed costs of an interim answer and of each of its fields, in bytes, beside their text.
const (
	interimCost = 32
	fieldCost   = 4
)

// do sends the request of the hop, over HTTP/2 if the target speaks it. If fresh is set, it takes
// no HTTP/1.1 connection from the idle pool.
func (a *attempt) do(ctx context.Context, fresh bool) (*http.Response, error) {
	if !a.to.secure {
		return a.over1(ctx, fresh)
	}
	streams := a.exchange.transport.streams
	for unusable := 0; ; {
		found, lead, err := streams.take(ctx, a.to.address)
		if err != nil {
			return nil, err
		}
		if found != nil {
			answer, err := a.over2(ctx, found)
			if wantsHTTP1(err) {
				streams.insist(a.to.address)
			}
			return answer, err
		}
		answer, err := a.over1(ctx, fresh)
		streams.settle(a.to.address, lead)
		if !errors.Is(err, errUpgraded) {
			return answer, err
		}
		if streams.retireUnusable(a.to.address) {
			unusable++
		}
		if unusable == maxUnusable {
			return nil, &fault{reason: ConnectionLost, err: errNoStreams}
		}
	}
}

// over1 sends the request over HTTP/1.1, on a connection of the idle pool or on a new one.
func (a *attempt) over1(ctx context.Context, fresh bool) (*http.Response, error) {
	transport := a.exchange.transport
	var c *conn
	if !fresh {
		c = transport.pool.take(a.to)
	}
	a.reused = c != nil
	if c == nil {
		var err error
		if c, err = transport.dial(ctx, a.to, &a.watch); err != nil {
			return nil, err
		}
	}
	a.conn, a.writtenBefore, a.readBefore = c, c.mark(), c.received()
	a.sendBy = a.exchange.leaveBy(ctx)
	a.watch.enter(waiting)
	c.begin(a.sendBy)
	if err := ctx.Err(); err != nil {
		_ = c.Close()
		return nil, err
	}
	return a.roundTripHTTP1(ctx, a.exchange.request())
}

// answered records the first byte of the answer. It starts the timeout of the answer's header.
func (a *attempt) answered() {
	a.conn.answered.Store(true)
	a.watch.enter(transferring)
	a.exchange.timeouts.begun(a.exchange.cancel)
}

// interim records an interim answer, such as 102 or 103. The final answer is still to come, so the
// attempt returns to the waiting phase. The error is a fault if interim answers exceed
// maxHeaderBytes, because the transport of HTTP/2 leaves that bound to the hook.
func (a *attempt) interim(header http.Header) error {
	a.interims += interimCost
	for name, values := range header {
		for _, value := range values {
			a.interims += fieldCost + len(name) + len(value)
		}
	}
	if a.interims > maxHeaderBytes {
		return &fault{reason: ResponseTooLarge, err: errHeaderBytes}
	}
	a.exchange.timeouts.stop()
	a.watch.resume()
	return nil
}

// over2 sends the request over HTTP/2, on a session on which the caller has reserved a stream.
func (a *attempt) over2(ctx context.Context, s *session) (*http.Response, error) {
	a.reused = s.used.Swap(true)
	a.session, a.conn, a.writtenBefore, a.readBefore = s, s.conn, s.mark(), s.received()
	s.calledAt.Store(time.Now().UnixNano())
	a.sendBy = a.exchange.leaveBy(ctx)
	a.watch.enter(waiting)
	if a.late() {
		s.client.Release()
		return nil, &fault{reason: Late, err: errLate}
	}
	s.frames.opened()
	leaving, d := startSendDeadline(ctx, a.sendBy)
	answer, err := s.client.RoundTrip(a.exchange.request().WithContext(httptrace.WithClientTrace(leaving, &httptrace.ClientTrace{
		WroteHeaderField:     func(string, []string) { d.begin() },
		GotFirstResponseByte: a.answered,
		Got1xxResponse:       func(_ int, header textproto.MIMEHeader) error { return a.interim(http.Header(header)) },
	})))
	if err != nil {
		// After the end of ctx, the transport may be about to write it.
		a.left = d.left() || ctx.Err() != nil
		d.end()
		a.reused = a.reused || !a.left
		// Not one byte came, so retire the session: later requests must not wait on a dead
		// connection.
		if s.received() == a.readBefore {
			s.retire()
		}
		return nil, s.fault(err)
	}
	answer.Body = &streamBody{
		ReadCloser: answer.Body,
		session:    s,
		end:        d.end,
	}
	return answer, nil
}

// sent reports whether a byte of the request may have left, and prevents any later byte. It is for
// failed attempts: their connection is not reused, unless other streams share it and it still
// works.
func (a *attempt) sent() bool {
	switch {
	case a.conn == nil:
		return false
	case a.session == nil:
		return a.conn.seal(a.writtenBefore)
	case !a.left:
		return false
	case a.conn.lost():
		return a.conn.seal(a.writtenBefore)
	default:
		return true
	}
}

// late reports whether the send deadline of the request has passed.
func (a *attempt) late() bool { return !a.sendBy.IsZero() && time.Now().After(a.sendBy) }

// refused returns the alert by which the target ended the TLS session before an answer, or nil.
func (a *attempt) refused() error {
	if a.conn == nil {
		return nil
	}
	return a.conn.refused()
}

func (a *attempt) lost() bool {
	return a.conn != nil && a.conn.lost()
}

// overflowed reports whether an attempt failed before the end of the header because the header was
// too long. Over HTTP/2 it counts the bytes of the connection, because headers are compressed.
func (a *attempt) overflowed() bool {
	return a.conn != nil && !a.conn.lost() && a.conn.received()-a.readBefore >= maxHeaderBytes
}

// streamBody is the body of an answer over HTTP/2.
type streamBody struct {
	io.ReadCloser

	session *session
	end     func() // releases the send deadline
}

// Close ends the answer and releases its send deadline.
func (b *streamBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Read reads from the body, and raises the flood budget of the connection by the bytes read.
func (b *streamBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.session.frames.took(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.session.fault(err)
	}
	return n, err
}
