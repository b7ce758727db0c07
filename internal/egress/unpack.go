package egress

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	maxPacked   = 2 << 20 // bytes read at most of a compressed body
	freeRatio   = 1 << 20 // decompressed bytes permitted at any ratio
	maxUnpacked = 200     // ratio of decompressed to compressed bytes permitted beyond freeRatio
)

var (
	errPacked = errors.New("the compressed body is too long")
	errRatio  = errors.New("the body expands too far")
	errHalf   = errors.New("the compressed body ends in the middle")
	errNoGzip = errors.New("the body is not gzip")
)

// unpackers pools gzip readers, because each holds a window of 32 KiB.
var unpackers sync.Pool

// unpacking is a compressed body that is decompressed on reading. It fails when the compressed size
// or the expansion ratio exceeds its limit, so that decompression bombs cost little.
type unpacking struct {
	packed counted
	gzip   *gzip.Reader // nil before the first read
	out    int64
	err    error
}

// counted reads at most maxPacked bytes.
type counted struct {
	io.ReadCloser

	in    int64
	ended bool // the body reached its regular end
}

func (c *counted) Read(p []byte) (int, error) {
	if c.in >= maxPacked {
		return 0, &fault{reason: ProtocolError, err: errPacked}
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), maxPacked-c.in)])
	c.in += int64(n)
	c.ended = errors.Is(err, io.EOF)
	return n, err
}

// asksGzip reports whether the client may request compression by itself. It may not for HEAD, or if
// the user set Accept-Encoding or Range, because the user then expects the encoded bytes.
func asksGzip(method string, header http.Header) bool {
	return method != http.MethodHead && header.Get("Accept-Encoding") == "" && header.Get("Range") == ""
}

// unpack replaces the body of a gzip answer by the decompressed body.
func unpack(answer *http.Response) {
	encodings := answer.Header["Content-Encoding"]
	if len(encodings) != 1 || !namesGzip(encodings[0]) {
		return
	}
	answer.Header.Del("Content-Encoding")
	answer.Header.Del("Content-Length")
	answer.ContentLength, answer.Uncompressed = -1, true
	answer.Body = &unpacking{packed: counted{ReadCloser: answer.Body}}
}

// namesGzip reports whether a content coding is gzip, or its old name (RFC 9110, 8.4.1.3).
func namesGzip(coding string) bool {
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// Read reads decompressed bytes.
func (u *unpacking) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.gzip == nil {
		if u.err = u.explain(u.begin()); u.err != nil {
			return 0, u.err
		}
	}
	n, err := u.gzip.Read(p)
	err = u.explain(err)
	u.out += int64(n)
	if err == nil && u.out > freeRatio && u.out > maxUnpacked*u.packed.in {
		err = &fault{reason: ProtocolError, err: errRatio}
	}
	u.err = err
	return n, err
}

// explain classifies a decompression error: a truncated or invalid gzip body from the target is a
// ProtocolError. The error of a lost connection stays as it is.
func (u *unpacking) explain(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case u.packed.ended && errors.Is(err, io.ErrUnexpectedEOF): // The whole body came.
		return &fault{reason: ProtocolError, err: errHalf}
	case corrupt, errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return &fault{reason: ProtocolError, err: errNoGzip}
	default:
		return err
	}
}

func (u *unpacking) begin() error {
	if kept, ok := unpackers.Get().(*gzip.Reader); ok {
		u.gzip = kept
		return kept.Reset(&u.packed)
	}
	fresh, err := gzip.NewReader(&u.packed)
	u.gzip = fresh
	return err
}

// Close closes the compressed body and returns the gzip reader to the pool.
func (u *unpacking) Close() error {
	if u.gzip != nil {
		unpackers.Put(u.gzip)
		u.gzip = nil
	}
	u.err = http.ErrBodyReadAfterClose
	return u.packed.Close()
}
