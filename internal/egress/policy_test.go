package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// edge is a denied range with the addresses just outside of it and whether those may be called.
// Empty means that there is none.
type edge struct {
	first, last   string
	before, after string
	beforeOK      bool
	afterOK       bool
}

func edges() []edge {
	return []edge{
		{first: "0.0.0.0", last: "0.255.255.255", after: "1.0.0.0", afterOK: true},
		{first: "10.0.0.0", last: "10.255.255.255", before: "9.255.255.255", after: "11.0.0.0", beforeOK: true, afterOK: true},
		{first: "100.64.0.0", last: "100.127.255.255", before: "100.63.255.255", after: "100.128.0.0", beforeOK: true, afterOK: true},
		{first: "127.0.0.0", last: "127.255.255.255", before: "126.255.255.255", after: "128.0.0.0", beforeOK: true, afterOK: true},
		{first: "169.254.0.0", last: "169.254.255.255", before: "169.253.255.255", after: "169.255.0.0", beforeOK: true, afterOK: true},
		{first: "172.16.0.0", last: "172.31.255.255", before: "172.15.255.255", after: "172.32.0.0", beforeOK: true, afterOK: true},
		{first: "192.0.0.0", last: "192.0.0.255", before: "191.255.255.255", after: "192.0.1.0", beforeOK: true, afterOK: true},
		{first: "192.0.2.0", last: "192.0.2.255", before: "192.0.1.255", after: "192.0.3.0", beforeOK: true, afterOK: true},
		{first: "192.88.99.0", last: "192.88.99.255", before: "192.88.98.255", after: "192.88.100.0", beforeOK: true, afterOK: true},
		{first: "192.168.0.0", last: "192.168.255.255", before: "192.167.255.255", after: "192.169.0.0", beforeOK: true, afterOK: true},
		{first: "198.18.0.0", last: "198.19.255.255", before: "198.17.255.255", after: "198.20.0.0", beforeOK: true, afterOK: true},
		{first: "198.51.100.0", last: "198.51.100.255", before: "198.51.99.255", after: "198.51.101.0", beforeOK: true, afterOK: true},
		{first: "203.0.113.0", last: "203.0.113.255", before: "203.0.112.255", after: "203.0.114.0", beforeOK: true, afterOK: true},
		{first: "224.0.0.0", last: "239.255.255.255", before: "223.255.255.255", after: "240.0.0.0", beforeOK: true},
		{first: "240.0.0.0", last: "255.255.255.255", before: "239.255.255.255"},
		{first: "168.63.129.16", last: "168.63.129.16", before: "168.63.129.15", after: "168.63.129.17", beforeOK: true, afterOK: true},
		{first: "100.100.100.200", last: "100.100.100.200"},
		{first: "::", last: "::ffff:ffff", after: "::1:0:0"},
		{first: "::ffff:0:0:0", last: "::ffff:0:ffff:ffff", before: "::fffe:ffff:ffff:ffff", after: "::ffff:1:0:0"},
		{first: "64:ff9b::", last: "64:ff9b::ffff:ffff", before: "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", after: "64:ff9b::1:0:0"},
		{first: "64:ff9b:1::", last: "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"},
		{first: "100::", last: "100::ffff:ffff:ffff:ffff", after: "100:0:0:1::"},
		{first: "2001::", last: "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", before: "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", after: "2001:200::", beforeOK: true, afterOK: true},
		{first: "2001:db8::", last: "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", before: "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", after: "2001:db9::", beforeOK: true, afterOK: true},
		{first: "2002::", last: "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", before: "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", after: "2003::", beforeOK: true, afterOK: true},
		{first: "3fff::", last: "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", before: "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", after: "3fff:1000::", beforeOK: true, afterOK: true},
		{first: "5f00::", last: "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{first: "fc00::", last: "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", before: "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", after: "fe00::"},
		{first: "fe80::", last: "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", before: "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{first: "fec0::", last: "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{first: "ff00::", last: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{first: "::ffff:10.0.0.0", last: "::ffff:10.255.255.255", before: "::ffff:9.255.255.255", after: "::ffff:11.0.0.0", beforeOK: true, afterOK: true},
	}
}

func TestDeniedRangesEndWhereTheyShould(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{})
	for _, e := range edges() {
		t.Run(e.first, func(t *testing.T) {
			t.Parallel()
			require.False(t, policy.permits(netip.MustParseAddr(e.first)), e.first)
			require.False(t, policy.permits(netip.MustParseAddr(e.last)), e.last)
			if e.before != "" {
				require.Equal(t, e.beforeOK, policy.permits(netip.MustParseAddr(e.before)), e.before)
			}
			if e.after != "" {
				require.Equal(t, e.afterOK, policy.permits(netip.MustParseAddr(e.after)), e.after)
			}
		})
	}
}

func TestPublicAddressesArePermitted(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{})
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8"} {
		require.True(t, policy.permits(netip.MustParseAddr(text)), text)
	}
	require.False(t, policy.permits(netip.Addr{}))
	require.False(t, policy.permits(netip.MustParseAddr("2606:4700::1111%eth0")), "a zone")
}

func TestAllowListOpensOnlyItsEntries(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{Allow: prefixes("10.1.0.0/16", "fd00::/8", "127.0.0.0/8")})
	for _, text := range []string{"10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "127.0.0.1", "8.8.8.8"} {
		require.True(t, policy.permits(netip.MustParseAddr(text)), text)
	}
	for _, text := range []string{"10.0.255.255", "10.2.0.0", "fc00::1", "::1", "169.254.1.1"} {
		require.False(t, policy.permits(netip.MustParseAddr(text)), text)
	}
}

func TestCloudMetadataIsRefusedDespiteTheAllowList(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{Allow: prefixes("0.0.0.0/0", "::/0", "169.254.169.254/32", "fd00:ec2::254/128")})
	for _, text := range []string{
		"169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200",
		"64:ff9b::169.254.169.254",
	} {
		require.False(t, policy.permits(netip.MustParseAddr(text)), text)
	}
	require.True(t, policy.permits(netip.MustParseAddr("169.254.169.253")))
}

// TestMetadataStaysRefusedInEveryForm writes each address in each form that a router might unwrap.
func TestMetadataStaysRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	everything := NewPolicy(Rules{Allow: prefixes("0.0.0.0/0", "::/0"), AllowHosts: []string{"any.test"}})
	for addr := range metadataAddresses {
		forms := []string{addr.String()}
		if addr.Is4() {
			b := addr.As4()
			high, low := fmt.Sprintf("%x", int(b[0])<<8|int(b[1])), fmt.Sprintf("%x", int(b[2])<<8|int(b[3]))
			forms = append(forms,
				"::"+addr.String(), "::ffff:"+addr.String(), "::ffff:0:"+addr.String(), "64:ff9b::"+addr.String(),
				"64:ff9b:1::"+addr.String(), "64:ff9b:1:7:8:9:"+addr.String(),
				fmt.Sprintf("64:ff9b:1:%s:%x:%x00::", high, b[2], b[3]), fmt.Sprintf("64:ff9b:1:aa%02x:%x:%02x%02x::", b[0], b[1], b[2], b[3]),
				fmt.Sprintf("64:ff9b:1:aaaa:%x:%02x%02x:%02x00::", b[0], b[1], b[2], b[3]),
				"2002:"+high+":"+low+"::1", "2001:0:"+high+":"+low+"::1",
				fmt.Sprintf("2001:0:808:808::%x:%x", ^(int(b[0])<<8|int(b[1]))&0xffff, ^(int(b[2])<<8|int(b[3]))&0xffff),
				"2a00:1450:1:2:0:5efe:"+high+":"+low, "fd00::200:5efe:"+high+":"+low,
			)
		}
		for _, form := range forms {
			found := netip.MustParseAddr(form)
			require.False(t, everything.permits(found), form)
			require.False(t, everything.permitsAs("any.test", 80, found), form)
			require.Equal(t, DeniedMetadata, everything.judge(t.Context(), nil, "any.test", "tcp", netip.AddrPortFrom(found, 80).String()), form)
		}
	}
}

// TestTunnelsOpenNoPrivateAddress: where the operator allows a form that carries another address,
// that one is judged too. ISATAP looks like any other public address.
func TestTunnelsOpenNoPrivateAddress(t *testing.T) {
	t.Parallel()
	usual := NewPolicy(Rules{})
	open := NewPolicy(Rules{Allow: prefixes("2002::/16", "2001::/32", "::/96", "::ffff:0:0:0/96", "10.7.0.0/16", "fd00::/8")})
	for inside, ok := range map[string]bool{
		"8.8.8.8": true, "10.7.0.1": true, "10.8.0.1": false, "127.0.0.1": false, "192.168.1.1": false, "100.64.0.1": false,
	} {
		b := netip.MustParseAddr(inside).As4()
		for _, form := range []string{
			fmt.Sprintf("2002:%02x%02x:%02x%02x::1", b[0], b[1], b[2], b[3]), "::" + inside, "::ffff:0:" + inside, "2606:4700::5efe:" + inside,
			"2606:4700::200:5efe:" + inside, "fd00::5efe:" + inside,
			fmt.Sprintf("2001:0:808:808:0:0:%02x%02x:%02x%02x", ^b[0], ^b[1], ^b[2], ^b[3]),
		} {
			require.Equal(t, ok, open.permits(netip.MustParseAddr(form)), form)
			require.Equal(t, strings.HasPrefix(form, "2606") && inside == "8.8.8.8", usual.permits(netip.MustParseAddr(form)), form)
		}
	}
}

func TestAllowedTranslationPrefixOpensNoPrivateAddress(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{Allow: prefixes("64:ff9b::/96", "10.7.0.0/16")})
	require.True(t, policy.permits(netip.MustParseAddr("64:ff9b::8.8.8.8")))
	require.True(t, policy.permits(netip.MustParseAddr("64:ff9b::10.7.0.1")))
	require.False(t, policy.permits(netip.MustParseAddr("64:ff9b::10.8.0.1")))
	require.False(t, policy.permits(netip.MustParseAddr("64:ff9b::127.0.0.1")))
}

func TestNothingInADeniedRangeIsEverPermitted(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{})
	denied := deniedPrefixes()
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom(denied).Draw(t, "prefix")
		bytes := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
		base := prefix.Addr().AsSlice()
		for bit := range prefix.Bits() {
			mask := byte(0x80) >> (bit % 8)
			bytes[bit/8] = bytes[bit/8]&^mask | base[bit/8]&mask
		}
		addr, _ := netip.AddrFromSlice(bytes[:len(base)])
		if !prefix.Contains(addr) {
			t.Fatalf("%s is not in %s", addr, prefix)
		}
		if policy.permits(addr) {
			t.Fatalf("%s is permitted", addr)
		}
		if addr.Is4() && policy.permits(netip.AddrFrom16(addr.As16())) {
			t.Fatalf("%s is permitted as an IPv6 address", addr)
		}
	})
}
