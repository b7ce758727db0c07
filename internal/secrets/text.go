package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what everything but [Text.Reveal] makes of a secret.
const hidden = "[redacted]"

// Text is a text that must not be shown: whatever formats, encodes or logs it gets "[redacted]". The zero value is an empty one.
type Text struct {
	value *string // Not the text itself: of a Text in somebody's unexported field, fmt prints the fields and asks no method.
}

// NewText returns a text that hides value.
func NewText(value string) Text { return Text{value: &value} }

// Reveal returns the value itself. Whoever calls it answers for where the value goes.
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
