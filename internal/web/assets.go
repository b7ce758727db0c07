package web

import (
	"embed"
	"path"
	"strings"

	"rubato/internal/answers"
)

// The libraries of the console, each compressed by gzip -9 -n as its package publishes it. Their
// licenses lie beside them, and are served with them.
const (
	HtmxVersion  = "4.0.1"  // dist/htmx.min.js of htmx.org
	UPlotVersion = "1.6.32" // dist/uPlot.iife.min.js and dist/uPlot.min.css of uplot
	PicoVersion  = "2.1.1"  // css/pico.min.css of @picocss/pico
)

//go:embed assets
var files embed.FS

// assets returns every file by its route.
func assets() map[string]answers.File {
	found, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // It is in the binary.
	}
	list := map[string]answers.File{}
	for _, f := range found {
		body, err := files.ReadFile(path.Join("assets", f.Name()))
		if err != nil {
			panic(err) // As above.
		}
		list["GET /console/assets/"+strings.TrimSuffix(f.Name(), ".gz")] = answers.NewFile(f.Name(), body)
	}
	return list
}
