package endpoints_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// certificate returns a PEM certificate that is valid until notAfter.
func certificate(t *testing.T, notAfter time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// permitting is an [endpoints.Targets] of an operator that permits calls without verification.
type permitting struct{ targets }

func (permitting) PermitsSkipVerify() bool { return true }

func (p permitting) For([16]byte) endpoints.Targets { return p }

func TestTLSOfEndpointsIsChecked(t *testing.T) {
	t.Parallel()
	good := certificate(t, time.Now().Add(time.Hour))
	key := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	for name, test := range map[string]struct {
		tls  endpoints.TLS
		want string
	}{
		"Nothing":           {endpoints.TLS{}, ""},
		"Everything":        {endpoints.TLS{CACertificates: good + good, ClientCertificate: good, ClientKey: `{{secret "k"}}`, ServerName: "api.example.com", MinVersion: "1.3"}, ""},
		"KeyWithSpaces":     {endpoints.TLS{ClientCertificate: good, ClientKey: `{{ secret "client-key" }}`}, ""},
		"ServerAddress":     {endpoints.TLS{ServerName: "192.0.2.7"}, ""},
		"CAText":            {endpoints.TLS{CACertificates: "hello"}, "tls.caCertificates pem_invalid"},
		"CAWithKey":         {endpoints.TLS{CACertificates: good + key}, "tls.caCertificates pem_invalid"},
		"CAWithMore":        {endpoints.TLS{CACertificates: good + "and more"}, "tls.caCertificates pem_invalid"},
		"CertificateBroken": {endpoints.TLS{ClientCertificate: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ClientKey: `{{secret "k"}}`}, "tls.clientCertificate pem_invalid"},
		"CertificateAlone":  {endpoints.TLS{ClientCertificate: good}, "tls.clientKey required"},
		"KeyAlone":          {endpoints.TLS{ClientKey: `{{secret "k"}}`}, "tls.clientKey required"},
		"KeyItself":         {endpoints.TLS{ClientCertificate: good, ClientKey: key}, "tls.clientKey secret_required"},
		"KeyWithText":       {endpoints.TLS{ClientCertificate: good, ClientKey: `x{{secret "k"}}`}, "tls.clientKey secret_required"},
		"TwoKeys":           {endpoints.TLS{ClientCertificate: good, ClientKey: `{{secret "a"}}{{secret "b"}}`}, "tls.clientKey secret_required"},
		"OtherFunction":     {endpoints.TLS{ClientCertificate: good, ClientKey: `{{run.id}}`}, "tls.clientKey secret_required"},
		"ServerNameSpace":   {endpoints.TLS{ServerName: "a b"}, "tls.serverName invalid_value"},
		"OldVersion":        {endpoints.TLS{MinVersion: "1.1"}, "tls.minVersion invalid_value"},
		"SkipVerify":        {endpoints.TLS{SkipVerify: true}, "tls.skipVerify tls_forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := endpoints.Defaults()
			spec.Timeout = time.Second
			spec.Name, spec.URL, spec.BaselineInterval, spec.TLS = "n", "https://api.example.com/", time.Minute, &test.tls
			err := endpoints.NewValidator(targets{}).Check(endpoints.ID{}, spec)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			var e *errs.Error
			require.ErrorAs(t, err, &e)
			require.Len(t, e.Fields, 1)
			require.Equal(t, test.want, e.Fields[0].Field+" "+e.Fields[0].Code)
		})
	}
}

func TestSkipVerifyWhereTheOperatorPermitsIt(t *testing.T) {
	t.Parallel()
	spec := endpoints.Defaults()
	spec.Timeout = time.Second
	spec.Name, spec.URL, spec.BaselineInterval, spec.TLS = "n", "https://api.example.com/", time.Minute, &endpoints.TLS{SkipVerify: true}
	require.NoError(t, endpoints.NewValidator(permitting{}).For([16]byte{1}).Check(endpoints.ID{}, spec))
	spec.URL = "http://api.example.com/"
	require.Error(t, endpoints.NewValidator(permitting{}).Check(endpoints.ID{}, spec))
}

func TestExpiredCertificatesGetAWarning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e := endpoints.Endpoint{Spec: endpoints.Spec{BaselineInterval: time.Minute, TLS: &endpoints.TLS{
		CACertificates: certificate(t, now.Add(-time.Second)), ClientCertificate: certificate(t, now.Add(2*time.Hour)), SkipVerify: true,
	}}}
	codes := map[string]string{}
	for _, w := range e.Warnings(now) {
		codes[w.Field] = w.Code
	}
	require.Equal(t, "certificate_expired", codes["tls.caCertificates"])
	require.Equal(t, "certificate_expired", codes["tls.clientCertificate"], "it is not good yet")
	require.Equal(t, "not_verified", codes["tls.skipVerify"])
}
