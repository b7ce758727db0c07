// Package telemetry provides logs, metrics and health checks: loggers of one format, a metrics
// registry, and the admin handler that serves metrics, health and profiles. It reads the programs'
// state only through DatabaseReader and Check.
package telemetry

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// Format is the format of log lines.
type Format string

// Formats. With any other value, the format is text on a terminal and otherwise JSON.
const (
	// Text is coloured on a terminal.
	Text Format = "text"
	// JSON is one object per line.
	JSON Format = "json"
)

// NewLogger returns a logger that writes lines of at least the given level to w. Timestamps are in
// UTC, so that lines of several machines can be sorted.
func NewLogger(w io.Writer, level slog.Level, format Format) *slog.Logger {
	terminal := isTerminal(w)
	if format == Text || format != JSON && terminal {
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level:       level,
			TimeFormat:  "15:04:05.000Z",
			NoColor:     !terminal,
			ReplaceAttr: readable,
		}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// readable converts timestamps to UTC and formats durations with units, because JSON would show
// them in nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	default:
	}
	return a
}
