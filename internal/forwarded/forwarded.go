// Package forwarded finds the client address of a request behind proxies that write
// X-Forwarded-For.
package forwarded

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	header = "X-Forwarded-For"

	// maxHops bounds the number of followed proxies, because longer chains do not occur in practice.
	maxHops = 32
)

// Client returns the address of the client that sent a request, without its port. It is the other
// end of the connection, or the client that X-Forwarded-For names if that end is a trusted proxy.
// The list is read from its end, because each proxy appends its own client. Reading stops at the
// first address that is no trusted proxy, because everything to the left of it is the client's own
// claim.
func Client(r *http.Request, proxies []netip.Prefix) string {
	connected := peer(r.RemoteAddr)
	last, err := netip.ParseAddr(connected)
	if err != nil || !trusted(last, proxies) {
		return connected
	}
	hops := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
	slices.Reverse(hops)
	for _, hop := range hops[:min(len(hops), maxHops)] {
		address, ok := readHop(hop)
		if !ok { // The hops before it are unknown.
			break
		}
		if last = address; !trusted(last, proxies) {
			break
		}
	}
	return last.Unmap().WithZone("").String()
}

// peer returns an address without its port.
func peer(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// readHop reads an address that may have a port.
func readHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr(), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return address, err == nil
}

func trusted(address netip.Addr, proxies []netip.Prefix) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
