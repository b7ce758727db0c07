package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/config"
	"rubato/internal/placement"
)

func TestWorkersFindTheirCapabilities(t *testing.T) {
	t.Parallel()
	at := func(list ...string) (addresses []net.Addr) {
		for _, text := range list {
			ip, network, err := net.ParseCIDR(text)
			require.NoError(t, err)
			network.IP = ip
			addresses = append(addresses, network)
		}
		return addresses
	}
	var plain config.Config
	require.Empty(t, capabilities(plain, at("192.0.2.1/24", "fe80::1/64", "fd00::1/64", "::1/128")), "local addresses are not IPv6 in public")
	require.Equal(t, []string{placement.IPv6}, capabilities(plain, at("2001:db8::1/64", "2001:db8::2/64")))

	full := config.Config{
		Secrets: config.Secrets{Keys: []config.SecretKey{{ID: "a"}}},
		Egress:  config.Egress{Proxy: "http://proxy.example.com:3128"},
	}
	require.Equal(t, []string{placement.ClientCertificates, placement.Proxy}, capabilities(full, nil))
}
