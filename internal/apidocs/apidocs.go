// Package apidocs serves the contract of the REST API as a page for people: Scalar, in the binary, so that the page asks this server
// alone. The license of Scalar lies beside its script, and is served with it.
package apidocs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Version is the version of Scalar, @scalar/api-reference. The script is its dist/browser/standalone.js, compressed by gzip -9 -n.
const Version = "1.46.4"

// policy lets the page run its own scripts and ask its own server, and nothing else. Scalar makes its style sheets as it runs, which no
// hash can name beforehand.
const policy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var (
	//go:embed index.html
	page []byte
	//go:embed start.js
	start []byte
	//go:embed scalar.js.gz
	scalar []byte
	//go:embed LICENSE.scalar
	license []byte
)

// file is a file of the page.
type file struct {
	media      string
	body       []byte
	compressed bool // body is gzip
	tag        string
}

// Register adds the page, GET /docs, and its scripts below it to a mux. The page reads /openapi.yaml, which is not served here.
func Register(mux *http.ServeMux) {
	for path, f := range map[string]file{
		"/docs/license":   {media: "text/plain; charset=utf-8", body: license}, // It goes with every copy of the script.
		"/docs":           {media: "text/html; charset=utf-8", body: page},
		"/docs/start.js":  {media: "text/javascript; charset=utf-8", body: start},
		"/docs/scalar.js": {media: "text/javascript; charset=utf-8", body: scalar, compressed: true},
	} {
		f.tag = fmt.Sprintf(`"%x"`, sha256.Sum256(f.body))
		mux.Handle("GET "+path, f)
	}
}

// ServeHTTP answers with the file, or with nothing where the browser has it already.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // Kept, and asked for by its tag: a new release shows at once.
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", f.media)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Etag", f.tag)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
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
func (f file) plain(w http.ResponseWriter) {
	text, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		panic(err) // It is in the binary, and a test reads it.
	}
	_, _ = io.Copy(w, text) //nolint:gosec // Its size is known. A client that has gone needs nothing more.
}
