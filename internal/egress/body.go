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
	"time"
)

const (
	bodyHint   = 64 << 10              // memory taken at most on the word of a Content-Length
	drainBytes = 16 << 10              // read at most of what nobody wants, so that the connection can be kept
	drainTime  = 50 * time.Millisecond // and no longer than this
)

// readBody reads at most limit bytes of the body, decompressed, and reports whether there is more. Beside an error it returns
// what came before.
func readBody(answer *http.Response, limit int64) (body []byte, truncated bool, err error) {
	limit = min(limit, math.MaxInt64-1)
	var buffer bytes.Buffer
	if size := min(answer.ContentLength, limit, bodyHint); size > 0 {
		buffer.Grow(int(size) + bytes.MinRead)
	}
	_, err = buffer.ReadFrom(io.LimitReader(answer.Body, limit+1))
	if int64(buffer.Len()) > limit {
		return buffer.Bytes()[:limit], true, nil
	}
	if malformedGzip(err) {
		err = &fault{reason: ProtocolError, err: err}
	}
	return buffer.Bytes(), false, err
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
