package endpoints

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"time"

	"rubato/internal/errs"
)

// keyReference matches a client key: one reference to a secret and nothing else, so that no private
// key is stored in a spec.
var keyReference = regexp.MustCompile(`^\{\{\s*secret\s+"[a-z0-9][a-z0-9._-]{0,99}"\s*\}\}$`)

// hostName matches the names of certificates: DNS names and IP addresses.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$|^[0-9A-Fa-f:.]+$`)

// session checks the TLS settings of a spec.
func (v *Validator) session(s Spec) []errs.Field {
	if s.TLS == nil {
		return nil
	}
	var bad []errs.Field
	complain := func(field, code, message string) {
		bad = append(bad, errs.Field{
			Field:   "tls." + field,
			Code:    code,
			Message: message,
		})
	}
	t := s.TLS
	if strings.HasPrefix(strings.ToLower(s.URL), "http://") {
		bad = append(bad, errs.Field{
			Field:   "tls",
			Code:    "tls_without_https",
			Message: "must be absent where the url begins with http://",
		})
	}
	t.identities(complain)
	if t.ServerName != "" && !hostName.MatchString(t.ServerName) {
		complain("serverName", "invalid_value", "must be a host name such as api.example.com")
	}
	if t.MinVersion != "" && t.MinVersion != "1.2" && t.MinVersion != "1.3" {
		complain("minVersion", "invalid_value", `must be "1.2" or "1.3"`)
	}
	if permissions, ok := v.targets.(Permissions); t.SkipVerify && (!ok || !permissions.PermitsSkipVerify()) {
		complain("skipVerify", "tls_forbidden", "must be false: the operator does not permit calls to targets that are not verified")
	}
	return bad
}

// identities checks the trusted CAs and the client certificate.
func (t *TLS) identities(complain func(field, code, message string)) {
	if _, err := certificates(t.CACertificates); t.CACertificates != "" && err != nil {
		complain("caCertificates", "pem_invalid", "must be certificates in PEM: "+err.Error())
	}
	if _, err := certificates(t.ClientCertificate); t.ClientCertificate != "" && err != nil {
		complain("clientCertificate", "pem_invalid", "must be a certificate in PEM, and those that lead to its authority: "+err.Error())
	}
	if (t.ClientCertificate == "") != (t.ClientKey == "") {
		complain("clientKey", "required", "must be given exactly where clientCertificate is")
	}
	if t.ClientKey != "" && !keyReference.MatchString(t.ClientKey) {
		complain("clientKey", "secret_required", `must be a reference to a secret and nothing else, such as {{secret "client-key"}}`)
	}
}

// certificates parses PEM that holds at least one certificate and nothing else.
func certificates(text string) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	rest := []byte(text)
	for {
		block, more := pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %q", len(list)+1, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d can not be read", len(list)+1)
		}
		list, rest = append(list, certificate), more
	}
	if len(list) == 0 || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("there are %d, and something else", len(list))
	}
	return list, nil
}

// tlsWarnings warns about certificates outside their validity, and about disabled verification.
func (s Spec) tlsWarnings(now time.Time) (list []errs.Field) {
	if s.TLS == nil {
		return nil
	}
	for _, each := range []struct{ field, text string }{
		{"tls.caCertificates", s.TLS.CACertificates}, {"tls.clientCertificate", s.TLS.ClientCertificate},
	} {
		found, _ := certificates(each.text) // The validator refused unreadable certificates.
		if message := expiry(found, now); message != "" {
			list = append(list, errs.Field{
				Field:   each.field,
				Code:    "certificate_expired",
				Message: message,
			})
		}
	}
	if s.TLS.SkipVerify {
		list = append(list, errs.Field{
			Field:   "tls.skipVerify",
			Code:    "not_verified",
			Message: "the target's certificate is not verified, so an attacker in its place can read and answer the requests",
		})
	}
	return list
}

// expiry describes the first certificate that is not valid now; empty: all are valid.
func expiry(list []*x509.Certificate, now time.Time) string {
	for i, c := range list {
		switch {
		case now.After(c.NotAfter):
			return fmt.Sprintf("certificate %d expired on %s", i+1, c.NotAfter.UTC().Format(time.DateOnly))
		case now.Before(c.NotBefore):
			return fmt.Sprintf("certificate %d is good from %s on", i+1, c.NotBefore.UTC().Format(time.DateOnly))
		}
	}
	return ""
}

// Version returns the minimum TLS version as a constant of crypto/tls.
func (t *TLS) Version() uint16 {
	if t.MinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}
