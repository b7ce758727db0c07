package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// takenAtOnce is the number of bytes that socket buffers accept without a reading target. A
	// longer body has a goroutine of its own for writing, because the answer may come before its
	// end.
	takenAtOnce = 8 << 10
	// lastWrite is the maximum wait for the end of a request's write after the end of its answer.
	lastWrite = 50 * time.Millisecond
)

// Pools of buffers, so that idle connections hold none.
var (
	readers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriter(nil) }}
)

// http1Exchange is one HTTP/1.1 exchange. The calling goroutine writes and reads, so that idle
// connections need no goroutine. Only a long body is written by another one.
type http1Exchange struct {
	attempt *attempt
	conn    *conn
	reader  *bufio.Reader
	room    int // remaining bytes of the answer's header; [unbounded] after it
	// leave stops the hook that closes the connection at the end of the context. False: the hook
	// has started.
	leave func() bool
	// written is closed at the end of the write of a long request. Nil: the request is short.
	written chan struct{}
	// failed is the write error. For a long request, read it only after written is closed, because
	// the writing goroutine owns it until then.
	failed error
}

const unbounded = -1

// roundTripHTTP1 sends r over the connection of the attempt and returns the head of the answer. The
// caller must close its body.
func (a *attempt) roundTripHTTP1(ctx context.Context, r *http.Request) (*http.Response, error) {
	t := &http1Exchange{
		attempt: a,
		conn:    a.conn,
		reader:  readers.Get().(*bufio.Reader),
	} //nolint:forcetypeassert // Nothing else is put in.
	t.reader.Reset(t)
	t.leave = context.AfterFunc(ctx, func() { _ = t.conn.Close() })
	t.begin(r)
	answer, err := t.answer(r)
	if err != nil {
		t.end(false)
		return nil, errors.Join(t.failed, err)
	}
	body := &http1Body{
		exchange: t,
		body:     answer.Body,
		last:     answer.Close || answer.StatusCode < 200,
	}
	if answer.Body == http.NoBody {
		body.end(io.EOF)
	}
	answer.Body = body
	return answer, nil
}

// begin sends r. For a long body it starts a goroutine and returns.
func (t *http1Exchange) begin(r *http.Request) {
	if r.ContentLength <= takenAtOnce {
		t.send(r)
		return
	}
	t.written = make(chan struct{})
	go func() {
		defer close(t.written)
		t.send(r)
	}()
}

// send sends r. After a failed write on a lost connection it sets a short read deadline, because an
// answer or alert with the cause may still arrive.
func (t *http1Exchange) send(r *http.Request) {
	t.failed = t.write(r)
	switch {
	case t.failed == nil:
	case t.conn.lost():
		_ = t.conn.SetReadDeadline(time.Now().Add(alertTime))
	default: // The send deadline has passed, or the connection is sealed.
		_ = t.conn.Close()
	}
}

// write writes r to the connection. It returns a panic as an error, because a panic in the
// goroutine of a long body would end the process.
func (t *http1Exchange) write(r *http.Request) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("writing the request: a fault inside Rubato: %v", fault)
		}
	}()
	w := writers.Get().(*bufio.Writer) //nolint:forcetypeassert // Nothing else is put in.
	w.Reset(t.conn)
	defer func() {
		w.Reset(nil)
		writers.Put(w)
	}()
	if err := r.Write(w); err != nil {
		return err
	}
	return w.Flush()
}

// answer reads interim answers and returns the first final one.
func (t *http1Exchange) answer(r *http.Request) (*http.Response, error) {
	for {
		t.room = maxHeaderBytes
		if _, err := t.reader.Peek(1); err != nil {
			return nil, err
		}
		t.attempt.answered()
		answer, err := http.ReadResponse(t.reader, r)
		if err == nil && !t.conn.wrote(t.attempt.writtenBefore) {
			err = errUnasked
		}
		if err != nil {
			return nil, err
		}
		if answer.StatusCode/100 != 1 || answer.StatusCode == http.StatusSwitchingProtocols {
			t.room = unbounded
			return answer, nil
		}
		if err := t.attempt.interim(answer.Header); err != nil {
			return nil, err
		}
	}
}

// Read reads from the connection, within the byte limit of the header.
func (t *http1Exchange) Read(p []byte) (int, error) {
	if t.room == unbounded {
		return t.conn.Read(p)
	}
	if t.room == 0 {
		return 0, &fault{reason: ResponseTooLarge, err: errHeaderBytes}
	}
	n, err := t.conn.Read(p[:min(len(p), t.room)])
	t.room -= n
	return n, err
}

// end returns the connection to the idle pool, or closes it. The argument good means that the
// answer permits reuse.
func (t *http1Exchange) end(good bool) {
	watched := t.leave() // False: the context has ended and closed the connection.
	if good && watched && t.sent() && t.reader.Buffered() == 0 {
		t.attempt.exchange.transport.pool.keep(t.attempt.to, t.conn)
	} else {
		_ = t.conn.Close()
	}
	if t.written != nil {
		<-t.written
	}
	t.reader.Reset(nil)
	readers.Put(t.reader)
}

// sent reports whether the whole request was written and its write has ended.
func (t *http1Exchange) sent() bool {
	if t.written == nil {
		return t.failed == nil
	}
	timer := time.NewTimer(lastWrite)
	defer timer.Stop()
	select {
	case <-t.written:
		return t.failed == nil
	case <-timer.C:
		return false
	}
}

// http1Body is the body of an HTTP/1.1 answer. The exchange ends with it.
type http1Body struct {
	exchange *http1Exchange
	body     io.Reader
	last     bool  // the connection is not reusable after this answer
	over     error // result of later reads; nil: the body goes on
}

// Read reads from the body. At the end of the body the connection returns to the idle pool.
func (b *http1Body) Read(p []byte) (int, error) {
	if b.over != nil {
		return 0, b.over
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close ends the exchange. If the body has not been read to its end, the connection is closed.
func (b *http1Body) Close() error {
	if b.over == nil {
		b.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *http1Body) end(why error) {
	b.over = why
	b.exchange.end(errors.Is(why, io.EOF) && !b.last)
}
