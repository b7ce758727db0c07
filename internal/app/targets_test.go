package app

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
)

// Private targets are refused by default. An operator can allow single ones, as `rubato dev` does
// for the loopback interface.
func TestTargetsFollowTheRulesOfEgress(t *testing.T) {
	t.Parallel()
	closed := NewTargets(egress.Rules{}, false)
	dev := NewTargets(egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}, false)

	require.Equal(t, "url_forbidden", closed.CheckURL("http://127.0.0.1:9000/").Code)
	require.Nil(t, dev.CheckURL("http://127.0.0.1:9000/"))
	require.Nil(t, dev.CheckURL("http://localhost:9000/"))
	require.Equal(t, "url_forbidden", dev.CheckURL("http://10.0.0.1/").Code)
	require.Nil(t, NewTargets(egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, false).CheckURL("http://10.0.0.1/"))
	require.Equal(t, "header_forbidden", closed.CheckHeader("Host", "x").Code)
	require.Nil(t, closed.CheckHeader("Accept", "*/*"))
}
