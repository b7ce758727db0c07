package egress

import "net/netip"

// Forms of IPv6 addresses that carry an IPv4 address.
var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, deprecated
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
	// isatapLocal is the first half of the interface identifier (RFC 5214).
	isatapLocal = [4]byte{0, 0, 0x5e, 0xfe}
	isatapWorld = [4]byte{2, 0, 0x5e, 0xfe}
)

// inside returns the IPv4 address that a router or this machine would derive from addr, if the form
// of addr alone identifies it.
func inside(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch half := [4]byte(b[8:12]); {
	case compatible.Contains(addr), translated.Contains(addr), nat64.Contains(addr), half == isatapLocal, half == isatapWorld:
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(addr):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	default:
		return netip.Addr{}, false
	}
}

// carried returns every IPv4 address that addr may stand for. In the prefix of local NAT64
// translators, its position depends on the length of the translator's prefix (RFC 6052), so carried
// returns all of them.
func carried(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	switch {
	case nat64Local.Contains(addr):
		return []netip.Addr{
			netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}), netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}),
			netip.AddrFrom4([4]byte(b[9:13])), netip.AddrFrom4([4]byte(b[12:])),
		}
	case teredo.Contains(addr): // A Teredo address carries the server's address and the client's.
		client, _ := inside(addr)
		return []netip.Addr{netip.AddrFrom4([4]byte(b[4:8])), client}
	}
	if one, is := inside(addr); is {
		return []netip.Addr{one}
	}
	return nil
}
