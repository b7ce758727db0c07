package egress

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// refusedPort reports whether port usually serves a protocol that the text of an HTTP request can drive or damage.
func refusedPort(port uint16) bool {
	switch port {
	case 22, 23, 25, 53, 2375, 5432, 6379, 9200, 11211:
		return true
	default:
		return false
	}
}

// metadata reports whether addr hands credentials of its machine to whoever asks. No allow-list opens these.
func metadata(addr netip.Addr) bool {
	switch addr.String() {
	case "169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254":
		return true
	default:
		return false
	}
}

// deniedPrefixes are the ranges that are not the public internet. IPv4-mapped addresses are judged as the IPv4 address in them,
// and of IPv6 everything outside 2000::/3 is refused besides.
func deniedPrefixes() []netip.Prefix {
	ranges := []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "168.63.129.16/32",
		"::/96", "::1/128", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	}
	prefixes := make([]netip.Prefix, 0, len(ranges))
	for _, r := range ranges {
		prefixes = append(prefixes, netip.MustParsePrefix(r))
	}
	return prefixes
}

// Policy decides whom Rubato may call. It does not change and is safe for concurrent use.
type Policy struct {
	allow    []netip.Prefix
	guardian *ssrf.Guardian
	nat64    netip.Prefix // addresses that carry an IPv4 address in their last four bytes
}

// NewPolicy returns the policy that permits public addresses and those in allow. Metadata addresses are refused even there.
func NewPolicy(allow []netip.Prefix) *Policy {
	var v4, v6 []netip.Prefix
	for _, prefix := range deniedPrefixes() {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	return &Policy{
		allow:    slices.Clone(allow),
		guardian: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...)),
		nat64:    netip.MustParsePrefix("64:ff9b::/96"),
	}
}

// permits reports whether addr may be called.
func (p *Policy) permits(addr netip.Addr) bool {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid() || addr.Zone() != "" || metadata(addr):
		return false
	case p.opened(addr):
		return !p.nat64.Contains(addr) || p.permits(embedded(addr))
	default:
		return p.guardian.SafeAddr(addr) == nil
	}
}

// opened reports whether the allow-list names addr.
func (p *Policy) opened(addr netip.Addr) bool {
	return slices.ContainsFunc(p.allow, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// embedded returns the IPv4 address in the last four bytes of addr.
func embedded(addr netip.Addr) netip.Addr {
	bytes := addr.As16()
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

// opensLoopback reports whether the allow-list names the loopback address of IPv4 or of IPv6.
func (p *Policy) opensLoopback() (v4, v6 bool) {
	return p.opened(netip.AddrFrom4([4]byte{127, 0, 0, 1})), p.opened(netip.IPv6Loopback())
}

// opensPrivate reports whether the allow-list names more than loopback addresses. Then names that only a private network knows
// make sense; where they lead is judged when they are dialled.
func (p *Policy) opensPrivate() bool {
	return slices.ContainsFunc(p.allow, func(prefix netip.Prefix) bool { return !prefix.Masked().Addr().IsLoopback() })
}

// network returns the network on which host is dialled. A loopback name has an address in both families; where only one of them
// may be called, the other is left out rather than refused.
func (p *Policy) network(host string) string {
	if !isLoopbackName(normalName(host)) {
		return "tcp"
	}
	switch v4, v6 := p.opensLoopback(); {
	case v4 && !v6:
		return "tcp4"
	case v6 && !v4:
		return "tcp6"
	default:
		return "tcp"
	}
}

// control is called by the dialer with the very address that it is about to connect to.
func (p *Policy) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") || !p.permits(target.Addr()) {
		return &fault{reason: EgressDenied, err: errDenied}
	}
	return nil
}
