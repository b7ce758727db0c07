package egress

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Allowance is a tenant's addition to the operator's allow list. Requests with equal content share
// connections. Do not change it after its first use.
type Allowance struct {
	Prefixes []netip.Prefix
	Hosts    []string // see [Rules]
}

// hostPattern is an entry of the allow list of hosts.
type hostPattern struct {
	name  string // lower case, without the wildcard
	below bool   // covers all subdomains of name, but not name itself
	port  uint16 // zero: all ports that the policy permits
}

// ValidHost reports whether text is a valid entry of the allow list of hosts.
func ValidHost(text string) bool {
	_, ok := parseHostPattern(text)
	return ok
}

func parseHostPattern(text string) (hostPattern, bool) {
	host, port := text, uint64(0)
	if name, digits, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 {
			return hostPattern{}, false
		}
		host, port = name, n
	}
	rest, below := strings.CutPrefix(host, "*.")
	name := normalName(rest)
	if addr, err := netip.ParseAddr(name); err == nil {
		return hostPattern{name: addr.Unmap().String(), port: uint16(port)}, !below && addr.Zone() == ""
	}
	return hostPattern{
		name:  name,
		below: below,
		port:  uint16(port),
	}, validName(name) && !endsInNumber(name)
}

func hostPatterns(texts []string) []hostPattern {
	list := make([]hostPattern, 0, len(texts))
	for _, text := range texts {
		if pattern, ok := parseHostPattern(text); ok {
			list = append(list, pattern)
		}
	}
	return list
}

func (h hostPattern) matches(name string, port uint16) bool {
	if h.port != 0 && h.port != port {
		return false
	}
	if h.below {
		return strings.HasSuffix(name, "."+h.name)
	}
	return name == h.name
}

// hostKey returns host in the normal form of patterns.
func hostKey(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return normalName(host)
}

// namesHost reports whether the allow list covers host on port.
func (p *Policy) namesHost(host string, port uint16) bool {
	if len(p.hosts) == 0 {
		return false
	}
	key := hostKey(host)
	return slices.ContainsFunc(p.hosts, func(h hostPattern) bool { return h.matches(key, port) })
}

// namesPort reports whether the allow list covers host with exactly this port. Only such an entry
// opens an address of Rubato itself.
func (p *Policy) namesPort(host string, port uint16) bool {
	key := hostKey(host)
	return slices.ContainsFunc(p.hosts, func(h hostPattern) bool { return h.port != 0 && h.matches(key, port) })
}
