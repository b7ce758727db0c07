// Package answers holds what the HTTP handlers share: it compresses answers by gzip, serves files of the binary, and records the
// answer of a handler that is called without a network.
package answers

import (
	"compress/gzip"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// least is the size in bytes from which an answer is worth compressing: about what one packet holds.
const least = 1400

//nolint:gochecknoglobals // A pool is for a process.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// AcceptsGzip reports whether a client accepts gzip: its headers name it, and not with the weight 0.
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

// Writer compresses a large answer that is text. It holds the beginning back until the size is known. An answer that is flushed before
// that is sent as it is, because streams must not wait. Use NewWriter, and Close at the end.
type Writer struct {
	http.ResponseWriter

	status int
	held   []byte
	plain  bool
	gzip   *gzip.Writer
}

// NewWriter returns a writer to the client below.
func NewWriter(below http.ResponseWriter) *Writer { return &Writer{ResponseWriter: below} }

// Unwrap returns the writer below, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader keeps the status until it is known which headers go with it.
func (w *Writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write writes a part of the body.
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

// begin sends the headers and what was held back.
func (w *Writer) begin(compress bool) error {
	if w.plain = !compress; compress {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Del("Content-Length")
		w.gzip, _ = gzips.Get().(*gzip.Writer) // The pool holds nothing else.
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

// Flush sends what there is.
func (w *Writer) Flush() {
	if w.gzip == nil && !w.plain {
		_ = w.begin(false) // A client that has gone is noticed by the next write.
	}
	if w.gzip != nil {
		_ = w.gzip.Flush()
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Close sends the rest. It closes no connection.
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

// compressible reports whether an answer is text that is not yet encoded.
func compressible(header http.Header) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	texts := []string{"application/json", "application/problem+json", "application/yaml", "application/x-ndjson", "text/html", "text/javascript"}
	return err == nil && header.Get("Content-Encoding") == "" && slices.Contains(texts, media)
}
