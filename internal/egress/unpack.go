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
	maxPacked   = 2 << 20 // bytes of a compressed body that are read, whatever comes out of them
	freeRatio   = 1 << 20 // bytes that may come out at any ratio
	maxUnpacked = 200     // bytes that may come out of one, past that
)

var (
	errPacked = errors.New("the compressed body is too long")
	errRatio  = errors.New("the body expands too far")
	errHalf   = errors.New("the compressed body ends in the middle")
	errNoGzip = errors.New("the body is not gzip")
)

// unpackers are used again: each holds a window of 32 KiB.
var unpackers sync.Pool

// unpacking is the body of a compressed answer, unpacked as it is read. It ends where more goes in or comes out than may.
type unpacking struct {
	packed counted
	gzip   *gzip.Reader // nil before the first read
	out    int64
	err    error
}

// counted reads up to maxPacked bytes.
type counted struct {
	io.ReadCloser

	in    int64
	ended bool // the body came to its own end
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

// asksGzip reports whether a request may ask for a compressed answer by itself: where the user asks for an encoding or for a range,
// what comes is theirs to read.
func asksGzip(method string, header http.Header) bool {
	return method != http.MethodHead && header.Get("Accept-Encoding") == "" && header.Get("Range") == ""
}

// unpack makes the body of answer what it was before it was compressed, where we had asked for that.
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

// namesGzip reports whether a content coding is gzip, also by its old name (RFC 9110, 8.4.1.3).
func namesGzip(coding string) bool {
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// Read reads what was packed.
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

// explain tells compressed data that were cut before they were sent, or never were any, from a connection that was cut.
func (u *unpacking) explain(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case u.packed.ended && errors.Is(err, io.ErrUnexpectedEOF): // All of it came.
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

// Close closes the packed body.
func (u *unpacking) Close() error {
	if u.gzip != nil {
		unpackers.Put(u.gzip)
		u.gzip = nil
	}
	u.err = http.ErrBodyReadAfterClose
	return u.packed.Close()
}
