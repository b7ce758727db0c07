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

// Grant asks for a token: whose, where, as whom and for what.
type Grant struct {
	TenantID     [16]byte // tokens are never shared between tenants
	TokenURL     string
	ClientID     string
	ClientSecret string
	Audience     string // empty: none is asked for
	Scopes       []string
	Allowance    *egress.Allowance // what the tenant may call besides what everybody may; nil: nothing
	TLS          *egress.TLS       // how the TLS session with the server differs; nil: in nothing
}

// key names a grant. A rotated secret makes another one, and so does another TLS session: a server that one endpoint trusts tells nothing
// to those of another.
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
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // So that no two lists look the same.
		h.Write([]byte(part))
	}
	return key(h.Sum(nil))
}

// request returns the request for a token. Clients prove who they are by a header, which every server must know; inBody puts the
// credentials into the body instead, for servers that do not.
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
		Method: http.MethodPost, URL: g.TokenURL, Header: header, Body: []byte(form.Encode()), Timeout: fetchTimeout, MaxBody: maxAnswer,
		Allowance: g.Allowance, TLS: g.TLS,
	}
}
