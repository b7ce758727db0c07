package egress

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
)

// TLS is the TLS setting of an endpoint. The zero value is the default. Requests share connections
// only if their settings are equal.
type TLS struct {
	CACertificates    string // PEM; trusted authorities instead of those of the system
	ClientCertificate string // PEM; chain of the client, leaf first
	ClientKey         string // PEM; key of ClientCertificate
	ServerName        string // requested and verified name instead of the host of the URL
	MinVersion        uint16 // e.g. [tls.VersionTLS13]; zero: TLS 1.2
	SkipVerify        bool   // skip verification; requires [Config.AllowSkipVerify]
}

// Causes of unusable settings.
var (
	errCAs        = errors.New("the CA certificates hold no certificate that can be read")
	errClientPair = errors.New("the client certificate and its key can not be read, or do not belong together")
)

// transportKey is a hash of a TLS setting and an allowance, as the key of a transport.
type transportKey [sha256.Size]byte

func (t TLS) key(a *Allowance) transportKey {
	h := sha256.New()
	var number [8]byte
	text := func(s string) {
		binary.BigEndian.PutUint64(number[:], uint64(len(s)))
		h.Write(number[:])
		h.Write([]byte(s))
	}
	for _, s := range []string{t.CACertificates, t.ClientCertificate, t.ClientKey, t.ServerName} {
		text(s)
	}
	skip := uint16(0)
	if t.SkipVerify {
		skip = 1
	}
	binary.BigEndian.PutUint16(number[:], t.MinVersion)
	binary.BigEndian.PutUint16(number[2:], skip)
	h.Write(number[:4])
	if a != nil {
		for _, prefix := range a.Prefixes {
			text(prefix.String())
		}
		text("")
		for _, host := range a.Hosts {
			text(host)
		}
	}
	return transportKey(h.Sum(nil))
}

// config returns base with the setting applied.
func (t TLS) config(base *tls.Config) (*tls.Config, error) {
	cfg := base.Clone()
	cfg.MinVersion = max(cfg.MinVersion, t.MinVersion)
	cfg.InsecureSkipVerify = t.SkipVerify // transportOf checks the operator's permission.
	cfg.ServerName = t.ServerName
	if t.CACertificates != "" {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(t.CACertificates)) {
			return nil, errCAs
		}
	}
	if t.ClientCertificate != "" || t.ClientKey != "" {
		pair, err := tls.X509KeyPair([]byte(t.ClientCertificate), []byte(t.ClientKey))
		if err != nil {
			return nil, errClientPair
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
