package egress

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

const (
	bodyHint   = 64 << 10              // memory taken at most on the word of a Content-Length, and kept for the next body
	tailReach  = 8 << 20               // read at most beyond the head in search of the end of a body
	drainBytes = 16 << 10              // read at most of what nobody wants, so that the connection can be kept
	drainTime  = 50 * time.Millisecond // and no longer than this
)

// bodies are buffers that bodies are read into, to be used again: a body of unknown length, and most that are short, would take several
// times the memory that they need.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody reads the body of an answer into the response, decompressed: its head and, where one is asked for and there is more, its
// tail. Beside an error the response holds what came before.
func (r *Response) readBody(answer *http.Response, may bounds) (err error) {
	limit := min(may.body, math.MaxInt64-1)
	buffer := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // Nothing else is put in.
	defer func() {
		if buffer.Cap() <= bodyHint+bytes.MinRead {
			buffer.Reset()
			bodies.Put(buffer)
		}
	}()
	if size := min(answer.ContentLength, limit, bodyHint); size > 0 {
		buffer.Grow(int(size) + bytes.MinRead)
	}
	_, err = buffer.ReadFrom(io.LimitReader(answer.Body, limit+1))
	r.Body, r.BytesRead = bytes.Clone(buffer.Bytes()), int64(buffer.Len())
	if r.BytesRead > limit {
		r.Truncated, r.BytesRead = true, limit
		first := r.Body[limit] // Read to see that there is more: the first byte after the head.
		r.Body = r.Body[:limit:limit]
		err = nil
		if may.tail > 0 {
			err = r.readTail(answer.Body, first, may.tail)
		}
	}
	if malformedGzip(err) {
		return &fault{reason: ProtocolError, err: err}
	}
	return err
}

// readTail reads on to the end of a body and keeps the last of it, at most size bytes. It gives up, without a tail, where the end does not
// come within a bound: the end of what never ends is nothing to be had.
func (r *Response) readTail(body io.Reader, first byte, size int64) error {
	kept := &ring{buffer: make([]byte, 0, size), size: int(size)}
	_, _ = kept.Write([]byte{first})
	n, err := io.CopyN(kept, body, tailReach-1)
	r.BytesRead += 1 + n
	switch {
	case errors.Is(err, io.EOF):
		r.Tail = kept.bytes()
		return nil
	case errors.Is(err, errPacked), errors.Is(err, errRatio): // As far away, or farther, as the bound that ends the search.
		return nil
	default:
		return err
	}
}

// ring keeps the last bytes that were written to it.
type ring struct {
	buffer []byte
	size   int
	next   int // where the oldest byte is, once the buffer is full
}

// Write implements io.Writer. It never fails.
func (r *ring) Write(p []byte) (int, error) {
	written := len(p)
	if len(p) >= r.size {
		r.buffer, r.next = append(r.buffer[:0], p[len(p)-r.size:]...), 0
		return written, nil
	}
	if room := r.size - len(r.buffer); room > 0 {
		n := min(room, len(p))
		r.buffer, p = append(r.buffer, p[:n]...), p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buffer[r.next:], p)
		p, r.next = p[n:], (r.next+n)%r.size
	}
	return written, nil
}

// bytes returns what is kept, oldest first.
func (r *ring) bytes() []byte {
	if r.next == 0 {
		return r.buffer
	}
	return append(bytes.Clone(r.buffer[r.next:]), r.buffer[:r.next]...)
}

// malformedGzip reports whether err is about the compressed data. The connection may have ended by then, in good order.
func malformedGzip(err error) bool {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return true
	}
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}

// drain reads the rest of a body where it is small and there already, so that the connection can be kept. Of a longer one
// nothing more is read: closing it costs a connection, reading it would cost whatever the target likes.
func drain(body io.Reader, cancel context.CancelFunc) {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}
