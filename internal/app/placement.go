package app

import (
	"net"
	"net/netip"

	"rubato/internal/config"
	"rubato/internal/dispatch"
	"rubato/internal/placement"
)

// placementOf returns which endpoints a worker with these settings may run.
func placementOf(settings config.Config) dispatch.Placement {
	addresses, _ := net.InterfaceAddrs() // Without addresses the worker has no IPv6.
	return dispatch.Placement{
		Tags:         settings.Worker.Tags,
		Capabilities: capabilities(settings, addresses),
		Exclusive:    settings.Worker.Exclusive,
	}
}

// capabilities returns the tags that a worker with these settings and addresses finds by itself.
func capabilities(settings config.Config, addresses []net.Addr) []string {
	var found []string
	if len(settings.Secrets.Keys) > 0 {
		found = append(found, placement.ClientCertificates)
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if ip := prefix.Addr(); err == nil && ip.Is6() && ip.IsGlobalUnicast() && !ip.IsPrivate() {
			found = append(found, placement.IPv6)
		}
	}
	if settings.Egress.Proxy != "" {
		found = append(found, placement.Proxy)
	}
	return placement.Sorted(found)
}
