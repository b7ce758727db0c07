package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is the printed form of every Text.
const hidden = "[redacted]"

// Text is a string that formatting, encoding and logging print as "[redacted]". The zero value is
// empty.
type Text struct {
	// value is a pointer, because fmt prints the fields of a Text in an unexported field without
	// calling its methods.
	value *string
}

// NewText returns a Text of value.
func NewText(value string) Text { return Text{value: &value} }

// Reveal returns the value. The caller is responsible for keeping it out of logs and answers.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// String returns "[redacted]".
func (t Text) String() string { return hidden }

// GoString returns "[redacted]".
func (t Text) GoString() string { return hidden }

// Format implements [fmt.Formatter]: "[redacted]" for every verb and flag.
func (t Text) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, hidden) }

// MarshalText implements [encoding.TextMarshaler], for JSON too: "[redacted]".
func (t Text) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements [slog.LogValuer]: "[redacted]".
func (t Text) LogValue() slog.Value { return slog.StringValue(hidden) }
