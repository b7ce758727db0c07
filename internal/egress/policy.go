package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"code.dny.dev/ssrf"
)

// deniedPrefixes returns the address ranges outside the public internet. IPv4-mapped addresses are
// checked as IPv4, and IPv6 outside 2000::/3 is refused as well.
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

// Rules are the operator's egress rules. The zero value permits public addresses on all ports,
// except the usual ports of some other protocols.
type Rules struct {
	// Allow is the allow list of non-public prefixes. Metadata addresses stay refused.
	Allow []netip.Prefix
	// AllowHosts is the allow list of hosts: db.corp.example, or *.corp.example for all subdomains,
	// each with an optional port. It covers all addresses of a host but metadata. Only an entry
	// with a port opens an address of Own.
	AllowHosts []string
	// Ports is the allow list of ports. Empty: all except those of [refusedPort].
	Ports []PortRange
	// Own lists the listeners of Rubato itself and its database addresses, as host:port. They are
	// refused even if Allow covers them, because a call to them could act as the operator. An empty
	// host means every address of this machine.
	Own []string
}

// Policy enforces the egress rules. It is immutable and safe for concurrent use.
type Policy struct {
	rules    Rules
	hosts    []hostPattern
	own      []ownAddress
	guardian *ssrf.Guardian
}

// NewPolicy returns the policy for rules. It ignores malformed entries of AllowHosts and Own; see
// [ValidHost].
func NewPolicy(rules Rules) *Policy {
	var v4, v6 []netip.Prefix
	for _, prefix := range deniedPrefixes() {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	rules.Allow = slices.Clone(rules.Allow)
	return &Policy{
		rules:    rules,
		hosts:    hostPatterns(rules.AllowHosts),
		own:      ownAddresses(rules.Own),
		guardian: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...)),
	}
}

// With returns the policy extended by a.
func (p *Policy) With(a *Allowance) *Policy {
	if a == nil {
		return p
	}
	wider := p.rules
	wider.Allow = slices.Concat(wider.Allow, a.Prefixes)
	wider.AllowHosts = slices.Concat(wider.AllowHosts, a.Hosts)
	return NewPolicy(wider)
}

// permits reports whether addr may be called under any name. An address that carries an IPv4
// address must pass for both.
func (p *Policy) permits(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || metadata(addr) || !p.opened(addr) && p.guardian.SafeAddr(addr) != nil {
		return false
	}
	one, is := inside(addr)
	return !is || addr == netip.IPv6Loopback() || p.permits(one)
}

// permitsAs reports whether addr may be called as an address of host on port. An allow list entry
// for the host covers every address but metadata.
func (p *Policy) permitsAs(host string, port uint16, addr netip.Addr) bool {
	if p.permits(addr) {
		return true
	}
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || metadata(addr) {
		return false
	}
	return p.namesHost(host, port)
}

// opened reports whether the allow list of prefixes contains addr.
func (p *Policy) opened(addr netip.Addr) bool {
	return slices.ContainsFunc(p.rules.Allow, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// opensLoopback reports whether the allow list contains the loopback address of IPv4 and of IPv6.
func (p *Policy) opensLoopback() (v4, v6 bool) {
	return p.opened(netip.AddrFrom4([4]byte{127, 0, 0, 1})), p.opened(netip.IPv6Loopback())
}

// opensPrivate reports whether the allow list contains more than loopback addresses. If so,
// internal names are accepted; their addresses are checked at the dial.
func (p *Policy) opensPrivate() bool {
	return slices.ContainsFunc(p.rules.Allow, func(prefix netip.Prefix) bool { return !prefix.Masked().Addr().IsLoopback() })
}

// network returns the network for a dial to host. If only one loopback family may be called, it
// selects that family, because a loopback name has an address in both and the other would be
// refused.
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

// judge returns the rule that forbids a dial of address for host, or an empty Denial. It runs after
// name resolution, so that DNS rebinding does not bypass it.
func (p *Policy) judge(ctx context.Context, resolver *net.Resolver, host, network, address string) Denial {
	target, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || !strings.HasPrefix(network, "tcp"):
		return DeniedAddress
	case metadata(target.Addr().Unmap()):
		return DeniedMetadata
	case !p.permitsAs(host, target.Port(), target.Addr()):
		return DeniedAddress
	case p.isOwn(ctx, resolver, target) && !p.namesPort(host, target.Port()):
		return DeniedOwn
	default:
		return ""
	}
}
