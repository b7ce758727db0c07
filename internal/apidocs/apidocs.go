// Package apidocs serves the REST API documentation: Scalar, embedded in the binary, so that the
// page loads from this server only. The license of Scalar is served with its script.
package apidocs

import (
	_ "embed"
	"net/http"

	"rubato/internal/answers"
)

// Version is the version of Scalar, @scalar/api-reference. The script is its
// dist/browser/standalone.js, compressed by gzip -9 -n.
const Version = "1.46.4"

// policy is the Content-Security-Policy of the page: its own scripts and its own server only.
// Scalar makes its style sheets as it runs, which no hash can name beforehand.
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

// Register adds the page, GET /docs, and its scripts below it to a mux. The page reads
// /openapi.yaml, which is not served here.
func Register(mux *http.ServeMux) {
	for path, f := range map[string]answers.File{
		"/docs/license":   answers.NewFile("LICENSE", license), // It goes with every copy of the script.
		"/docs":           answers.NewFile("index.html", page),
		"/docs/start.js":  answers.NewFile("start.js", start),
		"/docs/scalar.js": answers.NewFile("scalar.js.gz", scalar),
	} {
		mux.Handle("GET "+path, guarded(f))
	}
}

// guarded sets the security headers of the page.
func guarded(f answers.File) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		f.ServeHTTP(w, r)
	}
}
