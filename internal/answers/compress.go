// Package answers holds shared parts of the HTTP handlers: gzip compression of answers, static
// files of the binary, and a recorder for handlers that are called without a network.
package answers

import (
	"compress/gzip"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// least is the minimum size in bytes of a compressed answer. A smaller answer fits into one packet
// anyway.
const least = 1400

//nolint:gochecknoglobals // A pool is for a process.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// AcceptsGzip reports whether the request headers accept gzip with a weight above 0.
func AcceptsGzip(header http.Header) bool {
	for _, list := range header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(list, ",") {
			coding, weight, _ := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				continue
			}
			_, q, weighted := strings.Cut(weight, "=")
			return !weighted || strings.Trim(q, " 0.") != ""
		}
	}
	return false
}

// Writer compresses large text answers. It buffers the beginning until the size is known. An answer
// that is flushed before that is sent uncompressed, because streams must not wait. Call NewWriter,
// and Close at the end.
type Writer struct {
	http.ResponseWriter

	status int
	held   []byte
	plain  bool
	gzip   *gzip.Writer
}

// NewWriter returns a writer that writes to below.
func NewWriter(below http.ResponseWriter) *Writer { return &Writer{ResponseWriter: below} }

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader stores the status until the headers are known.
func (w *Writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write writes a part of the body, buffered until the size is known.
func (w *Writer) Write(part []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.gzip != nil:
		return w.gzip.Write(part)
	case w.plain:
		return w.ResponseWriter.Write(part)
	case len(w.held)+len(part) < least:
		w.held = append(w.held, part...)
		return len(part), nil
	}
	if err := w.begin(compressible(w.Header())); err != nil {
		return 0, err
	}
	return w.Write(part)
}

// begin sends the headers and the buffered part.
func (w *Writer) begin(compress bool) error {
	if w.plain = !compress; compress {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Del("Content-Length")
		w.gzip, _ = gzips.Get().(*gzip.Writer) // The pool holds no other type.
		w.gzip.Reset(w.ResponseWriter)
	}
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	held := w.held
	w.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := w.Write(held)
	return err
}

// Flush sends the buffered part uncompressed.
func (w *Writer) Flush() {
	if w.gzip == nil && !w.plain {
		_ = w.begin(false) // The next write reports a closed connection.
	}
	if w.gzip != nil {
		_ = w.gzip.Flush()
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Close sends the rest. It does not close the connection.
func (w *Writer) Close() error {
	if w.gzip == nil {
		if w.plain || w.status == 0 {
			return nil
		}
		return w.begin(false)
	}
	err := w.gzip.Close()
	w.gzip.Reset(nil)
	gzips.Put(w.gzip)
	return err
}

// compressible reports whether an answer is text without a content encoding.
func compressible(header http.Header) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	texts := []string{"application/json", "application/problem+json", "application/yaml", "application/x-ndjson", "text/html", "text/javascript"}
	return err == nil && header.Get("Content-Encoding") == "" && slices.Contains(texts, media)
}
