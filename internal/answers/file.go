package answers

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// File is an [http.Handler] for a file in the binary. Call NewFile.
type File struct {
	media      string
	body       []byte
	compressed bool // body is gzip
	size       int  // bytes in the binary
	tag        string
}

// NewFile returns a file. The media type follows from the extension of the name. With the extension
// .gz the body is compressed, and the extension before it decides.
func NewFile(name string, body []byte) File {
	plain, compressed := strings.CutSuffix(name, ".gz")
	f := File{
		media:      mediaOf(plain),
		body:       body,
		compressed: compressed,
		size:       len(body),
		tag:        fmt.Sprintf(`"%x"`, sha256.Sum256(body)),
	}
	if !compressed && len(body) >= least {
		f.body, f.compressed = pack(body), true
	}
	return f
}

// pack compresses a file.
func pack(body []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // A buffer never fails.
	_ = w.Close()        // As above.
	return packed.Bytes()
}

func mediaOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return "text/plain; charset=utf-8"
	}
}

// Size returns the size of the file in the binary, in bytes.
func (f File) Size() int { return f.size }

// ServeHTTP serves the file, or 304 if the browser's cached copy is current.
func (f File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // Kept, and asked for by its tag: a new release shows at once.
	h.Set("Content-Type", f.media)
	h.Set("Etag", f.tag)
	switch {
	case !f.compressed:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		h.Add("Vary", "Accept-Encoding")
		h.Set("Content-Encoding", "gzip")
		r.Header.Del("Range")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	default:
		h.Add("Vary", "Accept-Encoding")
		f.plain(w)
	}
}

// plain decompresses the file for a client without gzip.
func (f File) plain(w http.ResponseWriter) {
	text, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		panic(err) // It is in the binary, and tests read it.
	}
	_, _ = io.Copy(w, text) //nolint:gosec // Its size is known. A client that has gone needs nothing more.
}
