package config

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretKeysAreReadNewestFirst(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("ab", 16), strings.Repeat("cd", 16)
	text := "k2:" + base64.StdEncoding.EncodeToString([]byte(second)) + ", k1:" + base64.StdEncoding.EncodeToString([]byte(first))

	cfg, err := Load([]string{SecretKeys + "=" + text}, Program{})

	require.NoError(t, err)
	require.Equal(t, []SecretKey{{ID: "k2", Bytes: []byte(second)}, {ID: "k1", Bytes: []byte(first)}}, cfg.Secrets.Keys)
	for _, row := range cfg.Redacted() {
		require.NotContains(t, row.Value, base64.StdEncoding.EncodeToString([]byte(second)))
		if row.Name == SecretKeys {
			require.Equal(t, "***", row.Value)
		}
	}
}

func TestErrorsOfSecretKeysDoNotRepeatThem(t *testing.T) {
	t.Parallel()
	good := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("ab", 16)))
	for name, tc := range map[string]struct{ text, want string }{
		"NoID":     {good, "key 1 must be id:base64"},
		"BadID":    {"k1:" + good + ",k 2:" + good, "key 2 must be id:base64"},
		"NoBase64": {"k1:%%%canary%%%", `the key "k1" must be the base64 of exactly 32 bytes`},
		"Short":    {"k1:Y2FuYXJ5", `the key "k1" must be the base64 of exactly 32 bytes`},
		"Twice":    {"k1:" + good + ",k1:" + good, `the id "k1" is used twice`},
		"Guessed":  {"k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "one byte repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load([]string{SecretKeys + "=" + tc.text}, Program{})
			require.ErrorContains(t, err, tc.want)
			_, encoded, _ := strings.Cut(tc.text, ":")
			if encoded != "" {
				require.NotContains(t, err.Error(), encoded)
			}
		})
	}
}
