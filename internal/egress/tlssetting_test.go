package egress

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/waittest"
)

// pems returns a certificate and its key as endpoints hold them.
func pems(t *testing.T, c tls.Certificate) (certificate, key string) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func TestEndpointsTrustAuthoritiesOfTheirOwn(t *testing.T) {
	t.Parallel()
	certificate, _ := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	ca, _ := pems(t, certificate)
	other, _ := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	otherCA, _ := pems(t, other)
	for protocol, start := range map[string]func() *egresstest.Target{
		"HTTP1": func() *egresstest.Target {
			return egresstest.StartTLS(t, serving(certificate), egresstest.Answer(egresstest.OK("ok")))
		},
		"HTTP2": func() *egresstest.Target {
			return egresstest.StartH2(t, serving(certificate), egresstest.AnswerH2("ok"))
		},
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			target, client := start(), setup(t)
			request := get(target.URL())
			request.TLS = &TLS{CACertificates: ca}
			for range 3 {
				_, err := client.Do(t.Context(), request)
				require.NoError(t, err)
			}
			require.Equal(t, 1, target.Conns())
			// None of them may use the connection that is there.
			for _, setting := range []*TLS{nil, {}, {CACertificates: otherCA}} {
				request.TLS = setting
				e, _ := fails(t, client, request)
				require.Equal(t, TLSError, e.Reason)
			}
			require.Len(t, target.Requests(), 3)
		})
	}
}

// TestClientCertificateIsNotShownToOtherHosts: the host that it was given for redirects to one that
// would like to see it, and back.
func TestClientCertificateIsNotShownToOtherHosts(t *testing.T) {
	t.Parallel()
	certificate, _ := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	ca, _ := pems(t, certificate)
	mine, known := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	shown, key := pems(t, mine)
	var seen atomic.Int64
	curious := serving(certificate)
	curious.ClientAuth = tls.RequestClientCert
	curious.VerifyConnection = func(s tls.ConnectionState) error {
		seen.Add(int64(len(s.PeerCertificates)))
		return nil
	}
	strict := serving(certificate)
	strict.ClientAuth, strict.ClientCAs = tls.RequireAndVerifyClientCert, known
	other := egresstest.StartTLS(t, curious, egresstest.Answer(egresstest.OK("there")))
	first := egresstest.StartTLS(t, strict, egresstest.Answer(egresstest.Redirect("307 Temporary Redirect", other.URL())))
	client := setup(t)
	request := get(first.URL())
	request.MaxRedirects, request.TLS = 1, &TLS{CACertificates: ca, ClientCertificate: shown, ClientKey: key}
	for range 2 {
		response, err := client.Do(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, "there", string(response.Body))
	}
	require.Len(t, first.Requests(), 2)
	require.Equal(t, 1, other.Conns(), "connections without the certificate are kept too")
	require.Zero(t, seen.Load())
	require.Equal(t, shown, request.TLS.ClientCertificate)
}

func TestClientCertificateIsShown(t *testing.T) {
	t.Parallel()
	certificate, _ := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	ca, _ := pems(t, certificate)
	mine, known := certify(t, "127.0.0.1", time.Now().Add(time.Hour))
	shown, key := pems(t, mine)
	server := serving(certificate)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, known
	target := egresstest.StartTLS(t, server, egresstest.Answer(egresstest.OK("ok")))
	client := setup(t)
	request := get(target.URL())
	request.TLS = &TLS{CACertificates: ca, ClientCertificate: shown, ClientKey: key}
	_, err := client.Do(t.Context(), request)
	require.NoError(t, err)

	request.TLS = &TLS{CACertificates: ca}
	_, _ = fails(t, client, request)
	require.Len(t, target.Requests(), 1)

	request.TLS = &TLS{CACertificates: ca, ClientCertificate: shown, ClientKey: "canary"}
	e, _ := fails(t, client, request)
	require.Equal(t, TLSError, e.Reason)
	require.NotContains(t, e.Error()+e.Err.Error(), "canary")
	request.TLS = &TLS{CACertificates: "canary"}
	e, _ = fails(t, client, request)
	require.Equal(t, TLSError, e.Reason)
	require.Contains(t, e.Error(), "the CA certificates hold no certificate that can be read")
}

func TestServerNameAndLeastVersion(t *testing.T) {
	t.Parallel()
	certificate, _ := certify(t, "127.0.0.9", time.Now().Add(time.Hour))
	ca, _ := pems(t, certificate)
	server := serving(certificate)
	server.MaxVersion = tls.VersionTLS12
	target := egresstest.StartTLS(t, server, egresstest.Answer(egresstest.OK("ok")))
	client := setup(t)
	request := get(target.URL())
	request.TLS = &TLS{CACertificates: ca, ServerName: "127.0.0.9"}
	_, err := client.Do(t.Context(), request)
	require.NoError(t, err)
	for _, setting := range []TLS{{CACertificates: ca}, {CACertificates: ca, ServerName: "127.0.0.9", MinVersion: tls.VersionTLS13}} {
		request.TLS = &setting
		e, _ := fails(t, client, request)
		require.Equal(t, TLSError, e.Reason)
	}
}

func TestSkipVerifyNeedsTheOperator(t *testing.T) {
	t.Parallel()
	certificate, _ := certify(t, "127.0.0.9", time.Now().Add(time.Hour))
	target := egresstest.StartTLS(t, serving(certificate), egresstest.Answer(egresstest.OK("ok")))
	request := get(target.URL())
	request.TLS = &TLS{SkipVerify: true}
	e, _ := fails(t, setup(t), request)
	require.Equal(t, EgressDenied, e.Reason)
	require.Zero(t, target.Conns())
	_, err := setupClient(t, Config{Rules: Rules{Allow: loopback()}, AllowSkipVerify: true}, nil).Do(t.Context(), request)
	require.NoError(t, err)
}

func TestWiresAreBounded(t *testing.T) {
	t.Parallel()
	w := newTransportCache(dialer{policy: NewPolicy(Rules{}), tls: usualTLS(), limits: Limits{}.filled()}, 3)
	first, err := w.get(TLS{ServerName: "0"}, nil)
	require.NoError(t, err)
	for i := range 10 {
		_, err := w.get(TLS{ServerName: fmt.Sprint(i)}, nil)
		require.NoError(t, err)
		again, err := w.get(TLS{ServerName: "0"}, nil) // connections in use stay
		require.NoError(t, err)
		require.Same(t, first, again)
	}
	require.Equal(t, 3, w.recent.Len())
	require.Len(t, w.byKey, 3)
}

// TestEvictedTransportsKeepNoConnections has a call that connects after its transport was evicted:
// it waited for a host slot.
func TestEvictedTransportsKeepNoConnections(t *testing.T) {
	t.Parallel()
	arrived, answer, closed := make(chan struct{}, 2), make(chan struct{}, 2), make(chan struct{}, 2)
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			if _, ok := c.Next(); !ok {
				closed <- struct{}{}
				return
			}
			arrived <- struct{}{}
			<-answer
			c.Write(egresstest.OK("ok"))
		}
	})
	hostSlots := newHostSlots(1)
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, HostSlots: hostSlots.of}, nil)
	client.special.size = 1
	done := make(chan error, 2)
	call := func(setting *TLS) {
		r := get(target.URL())
		r.TLS = setting
		go func() { _, err := client.Do(t.Context(), r); done <- err }()
	}
	call(nil)
	<-arrived
	call(&TLS{ServerName: "evicted"})
	waittest.Until(t, func() bool { return hostSlots.waiting.Load() == 1 })
	_, err := client.special.get(TLS{ServerName: "other"}, nil)
	require.NoError(t, err)
	answer <- struct{}{}
	<-arrived
	answer <- struct{}{}
	require.NoError(t, <-done)
	require.NoError(t, <-done)

	select {
	case <-closed: // The connection of the evicted one; that of the other call is kept.
	case <-time.After(30 * time.Second):
		t.Fatal("a connection that nobody can use is kept")
	}
	require.Empty(t, closed)
}

func TestEverySettingHasAWireOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[transportKey]string{}
	for name, key := range map[string]transportKey{
		"nothing": TLS{}.key(nil), "ca": TLS{CACertificates: "a"}.key(nil), "certificate": TLS{ClientCertificate: "a"}.key(nil),
		"key": TLS{ClientKey: "a"}.key(nil), "name": TLS{ServerName: "a"}.key(nil), "version": TLS{MinVersion: 1}.key(nil),
		"skip": TLS{SkipVerify: true}.key(nil), "prefix": TLS{}.key(&Allowance{Prefixes: prefixes("10.0.0.0/8")}),
		"host": TLS{}.key(&Allowance{Hosts: []string{"10.0.0.0/8"}}), "both": TLS{CACertificates: "a", ClientCertificate: "b"}.key(nil),
		"joined": TLS{CACertificates: "ab"}.key(nil), "empty allowance": TLS{}.key(&Allowance{}),
	} {
		require.Empty(t, seen[key], name)
		seen[key] = name
	}
}
