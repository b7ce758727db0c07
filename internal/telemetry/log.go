// Package telemetry is how programs tell what they do: log lines of one form, metrics in one registry, and the admin handler that
// serves metrics, health and profiles. Of the programs it knows no more than what a DatabaseReader tells and what a Check asks.
package telemetry

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// Format is how log lines look.
type Format string

// The formats. Any other means: text on a terminal, else JSON.
const (
	Text Format = "text" // for people; coloured on a terminal
	JSON Format = "json" // one object a line
)

// NewLogger returns a logger that writes lines of at least a level to w. Instants are UTC, so that lines of many machines sort.
func NewLogger(w io.Writer, level slog.Level, format Format) *slog.Logger {
	terminal := isTerminal(w)
	if format == Text || format != JSON && terminal {
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: level, TimeFormat: "15:04:05.000Z", NoColor: !terminal, ReplaceAttr: readable,
		}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// readable turns every instant of a line to UTC, and writes durations with units, which JSON would make nanoseconds of.
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
