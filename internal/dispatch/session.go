package dispatch

import (
	"net/url"
	"strings"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
)

// session returns how the TLS session of an endpoint's calls differs, or nil where it does not. The key of its client certificate is
// still the reference that the endpoint holds.
func session(t *endpoints.TLS) *egress.TLS {
	if t == nil {
		return nil
	}
	return &egress.TLS{
		CACertificates: t.CACertificates, ClientCertificate: t.ClientCertificate, ClientKey: t.ClientKey, ServerName: t.ServerName,
		MinVersion: t.Version(), SkipVerify: t.SkipVerify,
	}
}

// sameHost reports whether two URLs name one host, on whatever ports.
func sameHost(one, other string) bool {
	a, err := url.Parse(one)
	if err != nil {
		return false
	}
	b, err := url.Parse(other)
	return err == nil && strings.EqualFold(a.Hostname(), b.Hostname())
}
