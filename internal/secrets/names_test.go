package secrets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreThoseInActions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`Bearer {{secret "token"}}`:                           {"token"},
		`{{ secret "b" }}:{{- secret "a" | base64 -}}`:        {"a", "b"},
		"{{secret `raw`}}{{secret \"raw\"}}":                  {"raw"},
		"{{\n\tsecret\n\"lines\"\n}}":                         {"lines"},
		`{"user":"{{endpoint.name}}","key":"{{secret "k"}}"}`: {"k"},
		`secret "none"`:                                       nil,
		`{{secrets "none"}}`:                                  nil,
		`{{endpoint.secret}}`:                                 nil,
		``:                                                    nil,
	} {
		require.Equal(t, want, Names(text), text)
	}
}
