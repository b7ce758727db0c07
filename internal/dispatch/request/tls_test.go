package request

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
)

func TestTLSSettingsOfAnEndpoint(t *testing.T) {
	t.Parallel()
	require.Nil(t, tlsOf(nil))
	require.Equal(t, &egress.TLS{
		CACertificates: "ca", ClientCertificate: "c", ClientKey: "k", ServerName: "s", MinVersion: tls.VersionTLS13, SkipVerify: true,
	}, tlsOf(&endpoints.TLS{CACertificates: "ca", ClientCertificate: "c", ClientKey: "k", ServerName: "s", MinVersion: "1.3", SkipVerify: true}))
	require.EqualValues(t, tls.VersionTLS12, tlsOf(&endpoints.TLS{}).MinVersion)
}
