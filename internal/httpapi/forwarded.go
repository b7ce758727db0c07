package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	forwardedFor = "X-Forwarded-For"

	// maxHops bounds how many proxies are followed back: nobody has so many in a row.
	maxHops = 32
)

// clientAddress returns where a request comes from: the other end of its connection, or, as long as that is a proxy of ours, whom the
// proxy says it serves. Every proxy writes its own client at the end of the list, so only what stands to the right of the first address
// that is none of ours was written by somebody we know; the rest is the client's word, and is not read.
func clientAddress(r *http.Request, proxies []netip.Prefix) string {
	connected := peer(r.RemoteAddr)
	last, err := netip.ParseAddr(connected)
	if err != nil || !trusted(last, proxies) {
		return connected
	}
	hops := strings.Split(strings.Join(r.Header.Values(forwardedFor), ","), ",")
	slices.Reverse(hops)
	for _, hop := range hops[:min(len(hops), maxHops)] {
		address, ok := readHop(hop)
		if !ok { // Whoever comes before is not known.
			break
		}
		if last = address; !trusted(last, proxies) {
			break
		}
	}
	return last.Unmap().WithZone("").String()
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
