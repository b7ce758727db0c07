package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// The libraries of the console, each compressed by gzip -9 -n as its package publishes it. Their licenses lie beside them, and are served
// with them.
const (
	HtmxVersion  = "4.0.1"  // dist/htmx.min.js of htmx.org
	UPlotVersion = "1.6.32" // dist/uPlot.iife.min.js and dist/uPlot.min.css of uplot
	PicoVersion  = "2.1.1"  // css/pico.min.css of @picocss/pico
)

//go:embed assets
var embedded embed.FS

// asset is a file that pages need.
type asset struct {
	media      string
	body       []byte
	compressed bool // body is gzip
	tag        string
}

// assets returns every file by its route.
func assets() map[string]asset {
	files, err := embedded.ReadDir("assets")
	if err != nil {
		panic(err) // It is in the binary.
	}
	list := map[string]asset{}
	for _, f := range files {
		body, err := embedded.ReadFile(path.Join("assets", f.Name()))
		if err != nil {
			panic(err) // As above.
		}
		name, compressed := strings.CutSuffix(f.Name(), ".gz")
		list["GET /console/assets/"+name] = asset{
			media: mediaOf(name), body: body, compressed: compressed, tag: fmt.Sprintf(`"%x"`, sha256.Sum256(body)),
		}
	}
	return list
}

func mediaOf(name string) string {
	switch path.Ext(name) {
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

// ServeHTTP answers with the file, or with nothing where the browser has it already.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // Kept, and asked for by its tag: a new release shows at once.
	h.Set("Content-Type", a.media)
	h.Set("Etag", a.tag)
	switch {
	case !a.compressed:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		h.Add("Vary", "Accept-Encoding")
		h.Set("Content-Encoding", "gzip")
		r.Header.Del("Range")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	default:
		h.Add("Vary", "Accept-Encoding")
		text, err := gzip.NewReader(bytes.NewReader(a.body))
		if err != nil {
			panic(err) // It is in the binary, and a test reads it.
		}
		_, _ = io.Copy(w, text) //nolint:gosec // Its size is known. A client that has gone needs nothing more.
	}
}
