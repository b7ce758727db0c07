package egress

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

func TestOwnAddressesAreRefusedEvenWhereAllowed(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	resolver := named(t, map[string][]string{"db.corp.test": {"127.0.0.1"}, "other.test": {"127.0.0.1"}})
	for name, own := range map[string]string{
		"Listener":     fmt.Sprintf("127.0.0.1:%d", target.Port()),
		"AnyInterface": fmt.Sprintf(":%d", target.Port()),
		"Unspecified":  fmt.Sprintf("[::]:%d", target.Port()),
		"Database":     fmt.Sprintf("db.corp.test:%d", target.Port()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := Rules{Allow: prefixes("127.0.0.0/8"), Own: []string{own}}
			client := setupClient(t, Config{Rules: rules}, resolver)
			for _, host := range []string{"127.0.0.1", "other.test", "db.corp.test"} {
				e, _ := fails(t, client, get(fmt.Sprintf("http://%s:%d/", host, target.Port())))
				require.Equal(t, EgressDenied, e.Reason, host)
			}
			require.Zero(t, target.Conns())
		})
	}
}

// TestOwnAddressesAreRefusedInEveryForm: a translator would lead where the address inside does.
func TestOwnAddressesAreRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{Allow: prefixes("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"), Own: []string{"93.184.215.14:5433"}})
	for _, form := range []string{
		"93.184.215.14", "::ffff:93.184.215.14", "64:ff9b::93.184.215.14", "64:ff9b:1::93.184.215.14", "2002:5db8:d70e::1",
		"2606:4700::5efe:93.184.215.14",
	} {
		addr := netip.MustParseAddr(form)
		require.Equal(t, DeniedOwn, policy.judge(t.Context(), nil, "x.test", "tcp", netip.AddrPortFrom(addr, 5433).String()), form)
		require.Empty(t, policy.judge(t.Context(), nil, "x.test", "tcp", netip.AddrPortFrom(addr, 443).String()), form)
	}
}

func TestOwnAddressIsOpenedByNameAndPort(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	address := fmt.Sprintf("127.0.0.1:%d", target.Port())
	client := setupClient(t, Config{Rules: Rules{Own: []string{address}, AllowHosts: []string{address}}}, nil)
	_, err := client.Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	require.Equal(t, 1, target.Conns())
}

func TestOwnNameThatCannotBeResolvedIsRefused(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	rules := Rules{Allow: loopback(), Own: []string{fmt.Sprintf("gone.test:%d", target.Port())}}
	client := setupClient(t, Config{Rules: rules}, named(t, nil))
	e, _ := fails(t, client, get(target.URL()))
	require.Equal(t, EgressDenied, e.Reason)
}

func TestAllowedHostsAreCalledWhereverTheyLead(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	resolver := named(t, map[string][]string{
		"db.corp.test": {"127.0.0.1"}, "corp.test": {"127.0.0.1"}, "xcorp.test": {"127.0.0.1"}, "meta.corp.test": {"169.254.169.254"},
	})
	client := setupClient(t, Config{Rules: Rules{AllowHosts: []string{"*.corp.test"}}}, resolver)
	for host, allowed := range map[string]bool{
		"db.corp.test": true, "DB.CORP.TEST.": true, "corp.test": false, "xcorp.test": false, "meta.corp.test": false, "127.0.0.1": false,
	} {
		_, err := client.Do(t.Context(), get(fmt.Sprintf("http://%s:%d/", host, target.Port())))
		require.Equal(t, allowed, err == nil, "%s: %v", host, err)
	}
}

func TestHostPatterns(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"db.corp.example": true, "*.corp.example": true, "db.corp.example:5433": true, "10.0.0.7": true, "10.0.0.7:9090": true,
		"[fd00::1]:80": true, "intranet": true,
		"": false, "*": false, "a.*.b": false, "http://a": false, "a/b": false, "a:0": false, "a:99999": false, "*.10.0.0.7": false,
		"127.1": false, "a b": false,
	} {
		require.Equal(t, ok, ValidHost(text), text)
	}
}

func TestPortsFollowThePolicy(t *testing.T) {
	t.Parallel()
	usual, some := NewPolicy(Rules{}), NewPolicy(Rules{
		Allow: prefixes("10.0.0.0/8"), Ports: []PortRange{{443, 443}, {8000, 8999}}, AllowHosts: []string{"db.example.com:5432"},
	})
	for _, port := range []int{22, 23, 25, 53, 2375, 5432, 6379, 9200, 11211} {
		require.NotNil(t, usual.CheckURL(fmt.Sprintf("https://example.com:%d/", port)), port)
		require.Nil(t, usual.CheckURL(fmt.Sprintf("https://example.com:%d/", port+1000)), port+1000)
	}
	for raw, ok := range map[string]bool{
		"https://example.com/": true, "https://example.com:8000/": true, "https://example.com:8999/": true, "http://db.example.com:5432/": true,
		"http://example.com/": false, "https://example.com:7999/": false, "https://example.com:9000/": false, "https://10.0.0.1:9000/": false,
	} {
		require.Equal(t, ok, some.CheckURL(raw) == nil, raw)
	}
}

func TestDenialsAreCountedByTheirRule(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", "http://10.0.0.1/")))
	client := setupClient(t, Config{
		Rules: Rules{Allow: loopback(), Own: []string{"127.0.0.1:9"}}, Registerer: registry,
	}, named(t, map[string][]string{"in.test": {"10.0.0.1"}, "meta.test": {"169.254.169.254"}, "us.test": {"127.0.0.1"}}))
	for _, request := range []Request{
		get("http://in.test/"), get("http://meta.test/"), get("http://us.test:9/"), get("http://example.com:22/"), get("ftp://example.com/"),
		{Method: "GET", URL: target.URL(), Header: http.Header{"Host": {"x"}}},
		{Method: "TRACE", URL: target.URL()},
		{Method: "GET", URL: "https://example.com/", TLS: &TLS{SkipVerify: true}},
		{Method: "GET", URL: target.URL(), MaxRedirects: 1},
	} {
		_, _ = fails(t, client, request)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Len(t, families[0].GetMetric(), len(denials()))
	for _, m := range families[0].GetMetric() {
		require.EqualValues(t, 1, m.GetCounter().GetValue(), m.GetLabel()[0].GetValue())
	}
	require.Equal(t, len(denials()), testutil.CollectAndCount(registry, "rubato_egress_denied_total"))
}

// TestRefusalsRevealNoAddresses compares the errors for addresses with and without a listener.
func TestRefusalsRevealNoAddresses(t *testing.T) {
	t.Parallel()
	listening := egresstest.StartAt(t, "127.0.0.2:0", egresstest.Answer(closing))
	client := setupClient(t, Config{}, named(t, map[string][]string{
		"a.test": {"127.0.0.2"}, "b.test": {"10.255.255.1"}, "c.test": {"169.254.169.254"}, "d.test": {"127.0.0.3"},
	}))
	spent := map[string]time.Duration{}
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test"} {
		best := time.Hour
		for range 20 {
			e, response := fails(t, client, get(fmt.Sprintf("http://%s:%d/", host, listening.Port())))
			require.Equal(t, fmt.Sprintf("calling http://%s:%d/: egress_denied: the target is not a permitted destination", host, listening.Port()), e.Error())
			require.Zero(t, response.StatusCode)
			require.Empty(t, response.Body)
			best = min(best, e.Phases.Total)
		}
		spent[host] = best
	}
	for host, d := range spent {
		require.InDelta(t, spent["a.test"].Seconds(), d.Seconds(), 0.005, host)
	}
	require.Zero(t, listening.Conns())
}

func TestAllowListsAreSeparatePerTenant(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok"))) // keeps its connections
	client := setupClient(t, Config{}, nil)
	request := get(target.URL())
	request.Allowance = &Allowance{Prefixes: loopback()}
	for range 3 {
		_, err := client.Do(t.Context(), request)
		require.NoError(t, err)
	}
	require.Equal(t, 1, target.Conns())
	for _, other := range []*Allowance{nil, {Prefixes: prefixes("10.0.0.0/8")}, {Hosts: []string{"example.com"}}} {
		request.Allowance = other
		e, _ := fails(t, client, request)
		require.Equal(t, EgressDenied, e.Reason)
	}
	require.Len(t, target.Requests(), 3)
}

func TestCallsGoThroughTheProxyToAddressesThatWereJudged(t *testing.T) {
	t.Parallel()
	server, secure := secured(t, Config{})
	secure.Close()
	plain := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	proxy := egresstest.StartProxy(t, "200 OK")
	through, err := url.Parse(proxy.URL())
	require.NoError(t, err)
	through.User = url.UserPassword("u", "p")
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, Proxy: through}, named(t, map[string][]string{
		"target.test": {"127.0.0.1"}, "in.test": {"10.0.0.1"}, "mixed.test": {"10.0.0.1", "127.0.0.1"},
	}))
	for range 2 {
		_, err = client.Do(t.Context(), get(fmt.Sprintf("http://target.test:%d/", plain.Port())))
		require.NoError(t, err)
	}
	asked := proxy.Requests()
	require.Len(t, asked, 1, "the connection is kept")
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d", plain.Port()), asked[0].URI, "an address, not the name")
	require.Equal(t, "Basic dTpw", asked[0].Header.Get("Proxy-Authorization"))
	require.Empty(t, plain.Requests()[0].Header.Get("Proxy-Authorization"))

	secret := egresstest.StartTLS(t, server, egresstest.Answer(egresstest.OK("ok")))
	e, _ := fails(t, client, get(secret.URL()))
	require.Equal(t, TLSError, e.Reason, "the target's certificate is verified behind the proxy too")
	for _, host := range []string{"in.test", "mixed.test"} {
		e, _ := fails(t, client, get("http://"+host+"/"))
		require.Equal(t, EgressDenied, e.Reason)
	}
	require.Len(t, proxy.Requests(), 2)
}

func TestProxyThatDoesNotConnect(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	for _, status := range []string{"407 Proxy Authentication Required", "502 Bad Gateway", "201 Created"} {
		through, err := url.Parse(egresstest.StartProxy(t, status).URL())
		require.NoError(t, err)
		client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, Proxy: through}, nil)
		e, _ := fails(t, client, get(target.URL()))
		require.Equal(t, ConnectError, e.Reason)
		require.False(t, e.Sent)
		require.Contains(t, e.Error(), "the proxy did not connect to the target")
	}
	require.Zero(t, target.Conns())
}

func TestNamesThatFlipTenThousandTimesReachNothing(t *testing.T) {
	t.Parallel()
	denied := egresstest.StartAt(t, "127.0.0.2:0", egresstest.Answer(closing))
	var flips atomic.Int64
	names := egresstest.StartDNS(t, func(q egresstest.Question) []netip.Addr {
		if q.IPv6 {
			return nil
		}
		if flips.Add(1)%2 == 0 {
			return []netip.Addr{silent().Addr()}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
	})
	client := setupClient(t, Config{Rules: Rules{Allow: []netip.Prefix{silent()}}}, names.Resolver())
	most := int64(10_000)
	if testing.Short() {
		most = 1000
	}
	for flips.Load() < most {
		e, _ := fails(t, client, get(fmt.Sprintf("http://flips.test:%d/", denied.Port())))
		require.Contains(t, []Reason{EgressDenied, ConnectError}, e.Reason)
	}
	require.Zero(t, denied.Conns())
}
