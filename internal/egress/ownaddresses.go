package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// ownLookup bounds the resolution of an own name. It is rare, because only calls to an own port
// need it.
const ownLookup = 2 * time.Second

// ownAddress is a listener of Rubato itself, or an address of its database.
type ownAddress struct {
	name string     // host name; then addr is invalid
	addr netip.Addr // unspecified: all addresses of this machine
	port uint16
}

func ownAddresses(texts []string) []ownAddress {
	list := make([]ownAddress, 0, len(texts))
	for _, text := range texts {
		host, digits, err := net.SplitHostPort(text)
		port, portErr := strconv.ParseUint(digits, 10, 16)
		if err != nil || portErr != nil || port == 0 {
			continue
		}
		own := ownAddress{port: uint16(port)}
		switch addr, err := netip.ParseAddr(host); {
		case host == "":
			own.addr = netip.IPv4Unspecified()
		case err == nil:
			own.addr = addr.Unmap().WithZone("")
		default:
			own.name = normalName(host)
		}
		list = append(list, own)
	}
	return list
}

// isOwn reports whether target is an own address. It returns true if an own name cannot be
// resolved, because the name may stand for target.
func (p *Policy) isOwn(ctx context.Context, resolver *net.Resolver, target netip.AddrPort) bool {
	addr := target.Addr().Unmap()
	for _, own := range p.own {
		if own.port != target.Port() {
			continue
		}
		if own.at(ctx, resolver, addr) || slices.ContainsFunc(carried(addr), func(one netip.Addr) bool { return own.at(ctx, resolver, one) }) {
			return true
		}
	}
	return false
}

// isOwnURL is isOwn by the text of a URL, without name resolution.
func (p *Policy) isOwnURL(host string, port uint16) bool {
	addr, err := netip.ParseAddr(host)
	name := normalName(host)
	for _, own := range p.own {
		switch {
		case own.port != port:
		case err == nil && own.name == "" && own.covers(addr.Unmap()),
			err != nil && own.name != "" && own.name == name,
			err != nil && isLoopbackName(name) && own.name == "" && own.covers(netip.AddrFrom4([4]byte{127, 0, 0, 1})):
			return true
		}
	}
	return false
}

func (o ownAddress) at(ctx context.Context, resolver *net.Resolver, addr netip.Addr) bool {
	if o.name == "" {
		return o.covers(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, ownLookup)
	defer cancel()
	found, err := resolver.LookupNetIP(ctx, "ip", o.name)
	if err != nil {
		return true
	}
	for _, own := range found {
		if own.Unmap() == addr {
			return true
		}
	}
	return false
}

func (o ownAddress) covers(addr netip.Addr) bool {
	if !o.addr.IsUnspecified() {
		return o.addr == addr
	}
	return addr.IsLoopback() || addr.IsUnspecified() || ofThisMachine(addr)
}

// ofThisMachine reports whether an interface of this machine has addr. It returns true if the
// interfaces cannot be read.
func ofThisMachine(addr netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap().WithZone("") == addr {
			return true
		}
	}
	return false
}
