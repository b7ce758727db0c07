package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

// certify returns a certificate for ip that ends at notAfter, and the pool that trusts it.
func certify(t *testing.T, ip string, notAfter time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		IPAddresses:           []net.IP{net.ParseIP(ip)},
		NotBefore:             notAfter.Add(-24 * time.Hour),
		NotAfter:              notAfter,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func serving(certificate tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
}

// setupTLS returns a client that trusts roots.
func setupTLS(t *testing.T, roots *x509.CertPool) *Client {
	t.Helper()
	c := newClient(Config{Rules: Rules{Allow: loopback()}}, nil, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots})
	t.Cleanup(c.Close)
	return c
}

func TestTLSSessionsAreVerified(t *testing.T) {
	t.Parallel()
	tomorrow := time.Now().Add(12 * time.Hour)
	good, trusted := certify(t, "127.0.0.1", tomorrow)
	other, trustedOther := certify(t, "127.0.0.9", tomorrow)
	expired, trustedExpired := certify(t, "127.0.0.1", time.Now().Add(-time.Hour))
	old := serving(good)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	tests := map[string]struct {
		server *tls.Config
		roots  *x509.CertPool
		text   string
	}{
		"UnknownAuthority": {serving(good), trustedOther, "the certificate is signed by an unknown authority"},
		"OtherHost":        {serving(other), trustedOther, "the certificate is for another host"},
		"Expired":          {serving(expired), trustedExpired, "the certificate has expired or is not yet valid"},
		"OldVersion":       {old, trusted, "the target refused the TLS session: protocol version not supported"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := egresstest.StartTLS(t, test.server, egresstest.Answer(egresstest.OK("")))
			e, _ := fails(t, setupTLS(t, test.roots), get(target.URL()+"/p?token=canary"))
			require.Equal(t, TLSError, e.Reason)
			require.False(t, e.Sent)
			require.Equal(t, "calling "+target.URL()+"/p: tls_error: "+test.text, e.Error())
			require.Empty(t, target.Requests())
		})
	}
}

// TestTargetsThatRefuseTheClientAreNamed: in TLS 1.3 a target judges the certificate of the client
// when the client takes the session for complete, and may have written its request.
func TestTargetsThatRefuseTheClientAreNamed(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	for version, alert := range map[uint16]string{tls.VersionTLS12: "handshake failure", tls.VersionTLS13: "certificate required"} {
		for _, protocol := range []string{protocolH1, protocolH2} {
			t.Run(tls.VersionName(version)+" "+protocol, func(t *testing.T) {
				t.Parallel()
				server := serving(certificate)
				server.ClientAuth, server.MaxVersion, server.NextProtos = tls.RequireAnyClientCert, version, []string{protocol}
				target := egresstest.StartHTTP(t, server, nil, func(http.ResponseWriter, *http.Request) { t.Error("the target got a request") })
				client := setupTLS(t, roots)
				for range 20 { // Whether the request or the refusal is first is a race.
					e, _ := fails(t, client, get(target.URL()))
					require.Equal(t, "calling "+target.URL()+": tls_error: the target refused the TLS session: "+alert, e.Error())
				}
			})
		}
	}
}

func TestTargetsWithoutTLS(t *testing.T) {
	t.Parallel()
	client := setup(t)
	plain := egresstest.Start(t, func(c *egresstest.Conn) { c.Write("HTTP/1.1 400 Bad Request\r\n\r\n") })
	e, _ := fails(t, client, get("https"+plain.URL()[len("http"):]))
	require.Equal(t, TLSError, e.Reason)
	require.Equal(t, "calling https"+plain.URL()[len("http"):]+": tls_error: the target does not speak TLS on this port", e.Error())

	silent := egresstest.Start(t, func(c *egresstest.Conn) { c.AwaitHangup() })
	request := get("https" + silent.URL()[len("http"):])
	request.Timeout = 300 * time.Millisecond
	e, _ = fails(t, client, request)
	require.Equal(t, Timeout, e.Reason)
	require.False(t, e.Sent)
	require.Positive(t, e.Phases.TLS)
}

// TestConnectionsThatEndInTheHandshakeAreNoConnections: a connection that is closed during the
// handshake counts as not connected, which permits a retry. Load balancers do so while their
// servers are being replaced.
func TestConnectionsThatEndInTheHandshakeAreNoConnections(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]egresstest.Script{
		"AtOnce":       func(*egresstest.Conn) {},
		"AfterOneByte": func(c *egresstest.Conn) { c.Arrived() },
		"InTheMiddle":  func(c *egresstest.Conn) { c.Write("\x16\x03\x03\x00\x7a\x02") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := egresstest.Start(t, script)
			url := "https" + strings.TrimPrefix(target.URL(), "http")
			e, _ := fails(t, setup(t), get(url))
			require.Equal(t, "calling "+url+": connect_error: the connection ended in the TLS handshake", e.Error())
			require.False(t, e.Sent)
		})
	}
}

func TestExactlyOneRequestOverTLS(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := setupTLS(t, roots)
			lossy := egresstest.StartTLS(t, serving(certificate), egresstest.CloseAfterReading(1))
			response, err := client.Do(t.Context(), get(lossy.URL()))
			require.NoError(t, err)
			require.Positive(t, response.Phases.TLS)
			shape.URL = lossy.URL()
			e, _ := fails(t, client, shape)
			require.Equal(t, ConnectionLost, e.Reason)
			require.True(t, e.Sent)
			require.Equal(t, 1, lossy.PerRun()["run_lost"])
			require.Equal(t, 1, lossy.Conns())

			steady := egresstest.StartTLS(t, serving(certificate), egresstest.Answer("HTTP/1.1 204 No Content\r\n\r\n"))
			blockIdleConnection(t, client, steady.URL())
			shape.URL = steady.URL()
			_, err = client.Do(t.Context(), shape)
			require.NoError(t, err)
			require.Equal(t, 1, steady.PerRun()["run_lost"])
			require.Equal(t, 2, steady.Conns())
		})
	}
}

func TestRedirectsDoNotLeaveTLS(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	plain := egresstest.Start(t, egresstest.Answer(egresstest.OK("")))
	secure := egresstest.StartTLS(t, serving(certificate), egresstest.Answer(egresstest.Redirect("302 Found", plain.URL())))
	request := get(secure.URL())
	request.MaxRedirects = 3
	e, response := fails(t, setupTLS(t, roots), request)
	require.Equal(t, RedirectDenied, e.Reason)
	require.Equal(t, http.StatusFound, response.StatusCode)
	require.Zero(t, plain.Conns())
}
