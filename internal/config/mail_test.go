package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIncompleteMailSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, environ := range map[string][]string{
		"RUBATO_SMTP_FROM must be set together":     {"RUBATO_SMTP_ADDRESS=mail.example.com:25"},
		"RUBATO_SMTP_PASSWORD must be set together": {"RUBATO_SMTP_USERNAME=u"},
		"RUBATO_SMTP_PASSWORD must not be set together with RUBATO_SMTP_TOKEN_URL": {
			"RUBATO_SMTP_USERNAME=u", "RUBATO_SMTP_PASSWORD=p", "RUBATO_SMTP_TOKEN_URL=https://login.example/token",
			"RUBATO_SMTP_CLIENT_ID=i", "RUBATO_SMTP_CLIENT_SECRET=s",
		},
		"RUBATO_SMTP_TOKEN_URL needs RUBATO_SMTP_USERNAME": {"RUBATO_SMTP_TOKEN_URL=https://login.example/token", "RUBATO_SMTP_CLIENT_ID=i"},
		"RUBATO_SMTP_CLIENT_SECRET need":                   {"RUBATO_SMTP_CLIENT_ID=i"},
		"must be a URL without":                            {"RUBATO_SMTP_TOKEN_URL=https://u:p@login.example/"},
		"must be scopes without":                           {"RUBATO_SMTP_TOKEN_SCOPES=a,,b"},
		"must be the name of a host":                       {"RUBATO_SMTP_HELLO=localhost"},
		"is not sent in the clear": {
			"RUBATO_SMTP_ADDRESS=m.example.com:25", "RUBATO_SMTP_FROM=a@example.com", "RUBATO_SMTP_USERNAME=u", "RUBATO_SMTP_PASSWORD=p", "RUBATO_SMTP_SECURITY=none",
		},
		"must be one address":     {"RUBATO_SMTP_FROM=a@example.com, b@example.com"},
		"must be starttls, tls":   {"RUBATO_SMTP_SECURITY=ssl"},
		"must be domains such as": {"RUBATO_SMTP_DOMAINS=example.com,,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(environ, Program{})
			require.ErrorContains(t, err, name)
		})
	}
}
