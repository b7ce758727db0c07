package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"code.dny.dev/ssrf"
)

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

// Rules are what the operator says about whom Rubato may call. The zero value permits public addresses on all ports but those that
// usually serve another protocol.
type Rules struct {
	// Allow names prefixes that may be called although they are not public. Metadata addresses stay refused.
	Allow []netip.Prefix
	// AllowHosts names hosts that may be called wherever they lead but to metadata: names such as db.corp.example, *.corp.example for
	// all names below one, and either with a port. Only an entry with a port opens an address of Own.
	AllowHosts []string
	// Ports that may be called. Empty: all but those of well-known other protocols; see [refusedPort].
	Ports []PortRange
	// Own are the listeners of Rubato itself and the addresses of its database, as host:port. They are refused even where Allow
	// covers them: whoever could call these would act as the operator. An empty host is every address of this machine.
	Own []string
}

// Policy decides whom Rubato may call. It does not change and is safe for concurrent use.
type Policy struct {
	rules    Rules
	hosts    []hostPattern
	own      []ownAddress
	guardian *ssrf.Guardian
}

// NewPolicy returns the policy that follows rules. Entries that name no host or port are left out; see [ValidHost].
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

// With returns the policy that permits besides what a names.
func (p *Policy) With(a *Allowance) *Policy {
	if a == nil {
		return p
	}
	wider := p.rules
	wider.Allow = slices.Concat(wider.Allow, a.Prefixes)
	wider.AllowHosts = slices.Concat(wider.AllowHosts, a.Hosts)
	return NewPolicy(wider)
}

// permits reports whether addr may be called, whatever name led to it. One that carries another address may be where both may.
func (p *Policy) permits(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || metadata(addr) || !p.opened(addr) && p.guardian.SafeAddr(addr) != nil {
		return false
	}
	one, is := inside(addr)
	return !is || addr == netip.IPv6Loopback() || p.permits(one)
}

// permitsAs reports whether addr may be called where host, on port, led to it: an entry for the host opens every address but metadata.
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

// opened reports whether the allow-list names addr.
func (p *Policy) opened(addr netip.Addr) bool {
	return slices.ContainsFunc(p.rules.Allow, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// opensLoopback reports whether the allow-list names the loopback address of IPv4 or of IPv6.
func (p *Policy) opensLoopback() (v4, v6 bool) {
	return p.opened(netip.AddrFrom4([4]byte{127, 0, 0, 1})), p.opened(netip.IPv6Loopback())
}

// opensPrivate reports whether the allow-list names more than loopback addresses. Then names that only a private network knows
// make sense; where they lead is judged when they are dialled.
func (p *Policy) opensPrivate() bool {
	return slices.ContainsFunc(p.rules.Allow, func(prefix netip.Prefix) bool { return !prefix.Masked().Addr().IsLoopback() })
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

// judge reports why the address that is about to be dialled for host may not be called, or nothing where it may.
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
