package egress

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Allowance is what one tenant may call besides what everybody may. It is compared by its address: hand the same one with every
// request of a tenant.
type Allowance struct {
	Prefixes []netip.Prefix
	Hosts    []string // as in [Rules]
}

// hostPattern is an entry of an allow-list of hosts.
type hostPattern struct {
	name  string // in lower case; without the star
	below bool   // every name below name, not name itself
	port  uint16 // zero: whatever the policy for ports permits
}

// ValidHost reports whether text can be an entry of an allow-list of hosts.
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
	return hostPattern{name: name, below: below, port: uint16(port)}, validName(name) && !endsInNumber(name)
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

// hostKey returns host as patterns hold it.
func hostKey(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return normalName(host)
}

// namesHost reports whether the allow-list of hosts names host, for port.
func (p *Policy) namesHost(host string, port uint16) bool {
	if len(p.hosts) == 0 {
		return false
	}
	key := hostKey(host)
	return slices.ContainsFunc(p.hosts, func(h hostPattern) bool { return h.matches(key, port) })
}

// namesPort reports whether the allow-list of hosts names host with this very port: the operator's word that even an address of
// Rubato itself may be called.
func (p *Policy) namesPort(host string, port uint16) bool {
	key := hostKey(host)
	return slices.ContainsFunc(p.hosts, func(h hostPattern) bool { return h.port != 0 && h.matches(key, port) })
}
