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
	// takenAtOnce is how many bytes of a body the sockets on the way take without waiting for the target to read. A longer one is written
	// while the answer is read, which may come before its end.
	takenAtOnce = 8 << 10
	// lastWrite is how long the end of a request may take to be known as written when its answer is there already.
	lastWrite = 50 * time.Millisecond
)

// Buffers of talks, to be used again: a connection that is idle has none.
var (
	readers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriter(nil) }}
)

// talk is a request over a connection of HTTP/1.1, and the answer to it. Whoever asked for it writes and reads: no goroutine stands by.
type talk struct {
	attempt *attempt
	conn    *conn
	reader  *bufio.Reader
	room    int           // bytes that may still come of the head of an answer; [unbounded] where it is over
	leave   func() bool   // ends the watch that closes the connection at the end of the context; false: it has
	written chan struct{} // of a long request: closed when no more of it will be written
	failed  error         // why not all of the request was written; of a long one only to be read after written is closed
}

const unbounded = -1

// talk sends r over the connection of the attempt, and returns the head of the answer, whose body the caller must close.
func (a *attempt) talk(ctx context.Context, r *http.Request) (*http.Response, error) {
	t := &talk{attempt: a, conn: a.conn, reader: readers.Get().(*bufio.Reader)} //nolint:forcetypeassert // Nothing else is put in.
	t.reader.Reset(t)
	t.leave = context.AfterFunc(ctx, func() { _ = t.conn.Close() })
	t.begin(r)
	answer, err := t.answer(r)
	if err != nil {
		t.end(false)
		return nil, errors.Join(t.failed, err)
	}
	body := &talkBody{talk: t, body: answer.Body, last: answer.Close || answer.StatusCode < 200}
	if answer.Body == http.NoBody {
		body.end(io.EOF)
	}
	answer.Body = body
	return answer, nil
}

// begin sends r; a long one it only begins to send.
func (t *talk) begin(r *http.Request) {
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

// send sends r. Where not all of it can be sent, nobody waits long for an answer, which may say why.
func (t *talk) send(r *http.Request) {
	t.failed = t.write(r)
	switch {
	case t.failed == nil:
	case t.conn.lost():
		_ = t.conn.SetReadDeadline(time.Now().Add(alertTime))
	default: // It may not leave, or not any more.
		_ = t.conn.Close()
	}
}

// write writes r to the connection. A panic is returned as an error, because a long request is written
// by a goroutine of its own, and would end the process.
func (t *talk) write(r *http.Request) (err error) {
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

// answer reads heads of answers until one comes that is not an interim one.
func (t *talk) answer(r *http.Request) (*http.Response, error) {
	for {
		t.room = maxHeaderBytes
		if _, err := t.reader.Peek(1); err != nil {
			return nil, err
		}
		t.attempt.answered()
		answer, err := http.ReadResponse(t.reader, r)
		if err == nil && !t.conn.wrote(t.attempt.mark) {
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

// Read reads from the connection; of the head of an answer no more than may be.
func (t *talk) Read(p []byte) (int, error) {
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

// end gives the connection back for the next request, or closes it. good says that as far as the answer goes it can serve another one.
func (t *talk) end(good bool) {
	watched := t.leave() // Or the context has ended, and the connection with it.
	if good && watched && t.sent() && t.reader.Buffered() == 0 {
		t.attempt.exchange.wire.kept.keep(t.attempt.to, t.conn)
	} else {
		_ = t.conn.Close()
	}
	if t.written != nil {
		<-t.written
	}
	t.reader.Reset(nil)
	readers.Put(t.reader)
}

// sent reports whether all of the request was written, and nothing of it is any more.
func (t *talk) sent() bool {
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

// talkBody is the body of an answer over HTTP/1.1. The talk ends with it.
type talkBody struct {
	talk *talk
	body io.Reader
	last bool  // the target closes the connection after it, or speaks something else than HTTP from there on
	over error // what there is instead of more; nil: more may come
}

// Read reads from the body. At its end the connection is kept for the next request.
func (b *talkBody) Read(p []byte) (int, error) {
	if b.over != nil {
		return 0, b.over
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close ends the talk. What is not read by then costs the connection.
func (b *talkBody) Close() error {
	if b.over == nil {
		b.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *talkBody) end(why error) {
	b.over = why
	b.talk.end(errors.Is(why, io.EOF) && !b.last)
}
