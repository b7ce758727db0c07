package request

import (
	"net/url"
	"strings"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
)

// tlsOf returns the TLS settings of an endpoint's requests, or nil for the defaults. The client
// key is not resolved yet: it is the reference to a secret that the endpoint stores.
func tlsOf(t *endpoints.TLS) *egress.TLS {
	if t == nil {
		return nil
	}
	return &egress.TLS{
		CACertificates:    t.CACertificates,
		ClientCertificate: t.ClientCertificate,
		ClientKey:         t.ClientKey,
		ServerName:        t.ServerName,
		MinVersion:        t.Version(),
		SkipVerify:        t.SkipVerify,
	}
}

// sameHost reports whether two URLs name the same host. Ports may differ.
func sameHost(one, other string) bool {
	a, err := url.Parse(one)
	if err != nil {
		return false
	}
	b, err := url.Parse(other)
	return err == nil && strings.EqualFold(a.Hostname(), b.Hostname())
}

// sameOrigin reports whether two URLs have the same scheme, host and port, so that the one may get
// the credentials of the other.
func sameOrigin(one, other string) bool {
	a, err := url.Parse(one)
	if err != nil {
		return false
	}
	b, err := url.Parse(other)
	return err == nil && a.Scheme == b.Scheme && egress.Server(one) == egress.Server(other)
}
