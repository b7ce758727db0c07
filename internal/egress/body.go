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
	// bodyHint is the maximum preallocation, in bytes, for a Content-Length, and kept in a pooled
	// buffer.
	bodyHint = 64 << 10
	// tailReach is the maximum number of bytes read beyond the head to find the end of a body.
	tailReach = 8 << 20
	// drainBytes is the maximum number of bytes read of an unused body, so that the connection can
	// be reused.
	drainBytes = 16 << 10
	drainTime  = 50 * time.Millisecond // maximum time of such a read
)

// bodies pools read buffers, because a new buffer for a short body or a body of unknown length
// would take several times the memory of the body.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody reads the decompressed body of an answer into the response: its head and, if the request
// wants one and the body is longer, its tail. After an error the response holds the part that came
// before.
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
		first := r.Body[limit] // The first byte after the head, read to detect a longer body.
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

// readTail reads on to the end of a body and keeps its last size bytes. It gives up without a tail
// if the end lies beyond tailReach, because a body may be endless.
func (r *Response) readTail(body io.Reader, first byte, size int64) error {
	kept := &ring{buffer: make([]byte, 0, size), size: int(size)}
	_, _ = kept.Write([]byte{first})
	n, err := io.CopyN(kept, body, tailReach-1)
	r.BytesRead += 1 + n
	switch {
	case errors.Is(err, io.EOF):
		r.Tail = kept.bytes()
		return nil
	case errors.Is(err, errPacked), errors.Is(err, errRatio): // The end lies as far away as tailReach, or farther.
		return nil
	default:
		return err
	}
}

// ring is a ring buffer that keeps the last bytes written to it.
type ring struct {
	buffer []byte
	size   int
	next   int // index of the oldest byte once the buffer is full
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

// bytes returns the content of the ring, oldest byte first.
func (r *ring) bytes() []byte {
	if r.next == 0 {
		return r.buffer
	}
	return append(bytes.Clone(r.buffer[r.next:]), r.buffer[:r.next]...)
}

// malformedGzip reports whether err is about the compressed data. The connection may be in order.
func malformedGzip(err error) bool {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return true
	}
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}

// drain reads the rest of a short body, so that the connection can be reused. It stops after
// drainBytes or drainTime, because a new connection costs less than a body of unknown length.
func drain(body io.Reader, cancel context.CancelFunc) {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}
