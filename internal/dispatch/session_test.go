package dispatch

import (
	"crypto/tls"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
)

func TestTheSessionOfACallIsThatOfItsEndpoint(t *testing.T) {
	t.Parallel()
	require.Nil(t, session(nil))
	require.Equal(t, &egress.TLS{
		CACertificates: "ca", ClientCertificate: "c", ClientKey: "k", ServerName: "s", MinVersion: tls.VersionTLS13, SkipVerify: true,
	}, session(&endpoints.TLS{CACertificates: "ca", ClientCertificate: "c", ClientKey: "k", ServerName: "s", MinVersion: "1.3", SkipVerify: true}))
	require.EqualValues(t, tls.VersionTLS12, session(&endpoints.TLS{}).MinVersion)
}

func TestHeadersThatHoldSecretsAreCredentials(t *testing.T) {
	t.Parallel()
	got := credentials(&endpoints.Spec{
		Auth:    &endpoints.Auth{Type: endpoints.AuthAPIKey, Header: "X-Partner"},
		Headers: map[string]string{"X-Plain": "secret", "X-Run": "{{run.id}}", "X-Held": `{{secret "k"}}`},
	})
	slices.Sort(got)
	require.Equal(t, []string{"X-Held", "X-Partner"}, got)
}
