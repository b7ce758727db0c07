package oauth2

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"rubato/internal/egress"
)

// Grant identifies a token: tenant, token server, client and scope.
type Grant struct {
	TenantID     [16]byte // part of the cache key, because tenants never share tokens
	TokenURL     string
	ClientID     string
	ClientSecret string
	// Audience is empty to request none.
	Audience string
	Scopes   []string
	// Allowance is the egress allow list of the tenant; nil: none besides the common one.
	Allowance *egress.Allowance
	// TLS configures the TLS session with the token server; nil: the defaults.
	TLS *egress.TLS
}

// key is the cache key of a grant. A rotated secret changes it. So does another TLS configuration,
// because a server that one endpoint trusts may not be trusted by another.
type key [sha256.Size]byte

func (g Grant) key() key {
	h := sha256.New()
	h.Write(g.TenantID[:])
	parts := append([]string{g.TokenURL, g.ClientID, g.ClientSecret, g.Audience, strconv.Itoa(len(g.Scopes))}, g.Scopes...)
	if t := g.TLS; t != nil {
		parts = append(parts, t.CACertificates, t.ClientCertificate, t.ClientKey, t.ServerName,
			strconv.Itoa(int(t.MinVersion)), strconv.FormatBool(t.SkipVerify))
	}
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // Length prefixes keep distinct lists distinct.
		h.Write([]byte(part))
	}
	return key(h.Sum(nil))
}

// request returns the token request. Credentials go into the Authorization header, which every
// server must support. inBody puts them into the body instead, for servers that require it.
func (g Grant) request(inBody bool) egress.Request {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(g.Scopes) > 0 {
		form.Set("scope", strings.Join(g.Scopes, " "))
	}
	if g.Audience != "" {
		form.Set("audience", g.Audience)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if inBody {
		form.Set("client_id", g.ClientID)
		form.Set("client_secret", g.ClientSecret)
	} else {
		r := http.Request{Header: header}
		r.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(g.ClientSecret)) // Encoded first: RFC 6749 section 2.3.1.
	}
	return egress.Request{
		Method:    http.MethodPost,
		URL:       g.TokenURL,
		Header:    header,
		Body:      []byte(form.Encode()),
		Timeout:   fetchTimeout,
		MaxBody:   maxAnswer,
		Tenant:    g.TenantID,
		Allowance: g.Allowance,
		TLS:       g.TLS,
	}
}
