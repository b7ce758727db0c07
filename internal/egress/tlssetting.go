package egress

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
)

// TLS says how the TLS session of one endpoint differs. The zero value differs in nothing. Connections are shared only between
// requests whose settings are the same.
type TLS struct {
	CACertificates    string // PEM; authorities that are trusted instead of those of the system
	ClientCertificate string // PEM; what the client shows, the leaf first
	ClientKey         string // PEM; the key of ClientCertificate
	ServerName        string // name that is asked for and verified instead of the host of the URL
	MinVersion        uint16 // such as [tls.VersionTLS13]; zero: TLS 1.2
	SkipVerify        bool   // trust whoever answers; only where [Config.AllowSkipVerify] permits it
}

// Causes of settings that cannot be used.
var (
	errCAs        = errors.New("the CA certificates hold no certificate that can be read")
	errClientPair = errors.New("the client certificate and its key can not be read, or do not belong together")
)

// wireKey tells settings apart. Two that differ in anything differ in it.
type wireKey [sha256.Size]byte

func (t TLS) key(a *Allowance) wireKey {
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
	return wireKey(h.Sum(nil))
}

// config returns base with the setting in it.
func (t TLS) config(base *tls.Config) (*tls.Config, error) {
	cfg := base.Clone()
	cfg.MinVersion = max(cfg.MinVersion, t.MinVersion)
	cfg.InsecureSkipVerify = t.SkipVerify // Only where the operator permits it; see wireOf.
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
