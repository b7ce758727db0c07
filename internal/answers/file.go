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

// File is a file in the binary. It is an [http.Handler]. Use NewFile.
type File struct {
	media      string
	body       []byte
	compressed bool // body is gzip
	size       int  // in the binary
	tag        string
}

// NewFile returns a file by its name, which tells what it holds; where it ends with .gz, the body is compressed, and the rest of the name
// tells.
func NewFile(name string, body []byte) File {
	plain, compressed := strings.CutSuffix(name, ".gz")
	f := File{media: mediaOf(plain), body: body, compressed: compressed, size: len(body), tag: fmt.Sprintf(`"%x"`, sha256.Sum256(body))}
	if !compressed && len(body) >= least {
		f.body, f.compressed = pack(body), true
	}
	return f
}

// pack compresses a file.
func pack(body []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // A buffer takes everything.
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

// Size returns how many bytes the file takes in the binary.
func (f File) Size() int { return f.size }

// ServeHTTP answers with the file, or with nothing where the browser has it already.
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

// plain writes a compressed file for clients that cannot read it so.
func (f File) plain(w http.ResponseWriter) {
	text, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		panic(err) // It is in the binary, and tests read it.
	}
	_, _ = io.Copy(w, text) //nolint:gosec // Its size is known. A client that has gone needs nothing more.
}
