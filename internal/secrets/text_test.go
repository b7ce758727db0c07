package secrets

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

const canary = "canary-7f3a91d2"

func TestTextIsShownByNoVerb(t *testing.T) {
	t.Parallel()
	text := NewText(canary)
	wrapped := struct {
		A Text
		B *Text
		C []Text
		D map[string]Text
		e Text
		f map[string]Text
	}{text, &text, []Text{text}, map[string]Text{"x": text}, text, map[string]Text{"x": text}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%#x", "%10.3s", "%d", "%t", "%c", "%U", "%e", "%T", "%!"} {
		for _, value := range []any{text, &text, wrapped, &wrapped, fmt.Errorf("sending %s: %v", text, text)} {
			shown := fmt.Sprintf(verb, value)
			require.NotContains(t, shown, canary, verb)
			require.NotContains(t, shown, fmt.Sprintf("%x", canary), verb)
			require.NotContains(t, shown, fmt.Sprintf("%X", canary), verb)
		}
	}
	require.Equal(t, hidden, text.String())
	require.Equal(t, hidden, fmt.Sprint(text))
	require.Equal(t, canary, text.Reveal())
}

func TestTextIsShownByNoEncoder(t *testing.T) {
	t.Parallel()
	value := map[string]Text{"secret": NewText(canary)}
	text, err := json.Marshal(value)
	require.NoError(t, err)
	require.JSONEq(t, `{"secret":"[redacted]"}`, string(text))
	type document struct{ Secret Text }
	text, err = xml.Marshal(document{NewText(canary)})
	require.NoError(t, err)
	require.NotContains(t, string(text), canary)
}

func TestTextIsShownByNoLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, options), slog.NewTextHandler(&out, options)} {
		text := NewText(canary)
		slog.New(handler).Debug("sending", "secret", text, "pointer", &text, slog.Group("deep", "list", []Text{text}, "struct", struct{ T Text }{text}))
	}
	require.Contains(t, out.String(), hidden)
	require.NotContains(t, out.String(), canary)
}
