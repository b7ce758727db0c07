package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

// closing is an answer after which no connection is kept, so that the next call dials again.
const closing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// twins returns a target that may be called and one that may not, on the same port of 127.0.0.1 and
// 127.0.0.2. The port is one that is free where every connection of every test has one of its own;
// of the other address hardly any port is taken.
func twins(t *testing.T) (open, denied *egresstest.Target) {
	t.Helper()
	open = egresstest.StartAt(t, "127.0.0.1:0", egresstest.Answer(closing))
	denied = egresstest.StartAt(t, fmt.Sprintf("127.0.0.2:%d", open.Port()), egresstest.Answer(closing))
	return open, denied
}

func TestNamesOfRefusedAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"127.0.0.2", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001::1",
		"fec0::1", "fd00:ec2::254", "0.0.0.0", "255.255.255.255",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			denied := egresstest.StartAt(t, "127.0.0.2:0", egresstest.Answer(closing))
			resolver := named(t, map[string][]string{"target.test": {address}})
			client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, resolver)
			for _, scheme := range []string{"http", "https"} {
				e, _ := fails(t, client, get(fmt.Sprintf("%s://target.test:%d/", scheme, denied.Port())))
				require.Equal(t, EgressDenied, e.Reason)
				require.False(t, e.Sent)
				require.NotContains(t, e.Error(), address)
			}
			require.Zero(t, denied.Conns())
		})
	}
}

func TestRefusedAddressIsNotSteppedOver(t *testing.T) {
	t.Parallel()
	t.Run("RefusedFirst", func(t *testing.T) {
		t.Parallel()
		open, denied := twins(t)
		client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, named(t, map[string][]string{"t.test": {"127.0.0.2", "127.0.0.1"}}))
		e, _ := fails(t, client, get(fmt.Sprintf("http://t.test:%d/", open.Port())))
		require.Equal(t, EgressDenied, e.Reason)
		require.Zero(t, open.Conns()+denied.Conns())
	})
	t.Run("RefusedAfterOneThatFails", func(t *testing.T) {
		t.Parallel()
		denied := egresstest.StartAt(t, "127.0.0.2:0", egresstest.Answer(closing))
		client := setupClient(t, Config{Rules: Rules{Allow: []netip.Prefix{silent()}}}, named(t, map[string][]string{"t.test": {"127.0.0.7", "127.0.0.2"}}))
		e, _ := fails(t, client, get(fmt.Sprintf("http://t.test:%d/", denied.Port())))
		require.Equal(t, EgressDenied, e.Reason)
		require.Zero(t, denied.Conns())
	})
	t.Run("RefusedAfterOneThatAnswers", func(t *testing.T) {
		t.Parallel()
		open, denied := twins(t)
		client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, named(t, map[string][]string{"t.test": {"127.0.0.1", "127.0.0.2"}}))
		_, err := client.Do(t.Context(), get(fmt.Sprintf("http://t.test:%d/", open.Port())))
		require.NoError(t, err)
		require.Equal(t, 1, open.Conns())
		require.Zero(t, denied.Conns())
	})
}

// TestAliasesAreJudgedByWhereTheyLead has chains of public names, and one that goes round.
func TestAliasesAreJudgedByWhereTheyLead(t *testing.T) {
	t.Parallel()
	open, denied := twins(t)
	names := egresstest.StartAliases(t, map[string]string{
		"shop.test": "cdn.example.test", "cdn.example.test": "edge-7.example.test", "edge-7.example.test": "inside.test",
		"good.test": "also-good.test", "also-good.test": "out.test", "mixed.test": "both.test", "round.test": "trip.test", "trip.test": "round.test",
	}, func(q egresstest.Question) []netip.Addr {
		inside, outside := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")
		return map[string][]netip.Addr{"inside.test": {inside}, "out.test": {outside}, "both.test": slices.Concat(slices.Repeat([]netip.Addr{inside}, 30), []netip.Addr{outside})}[q.Name]
	})
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, names.Resolver())
	for host, reason := range map[string]Reason{"shop.test": EgressDenied, "mixed.test": EgressDenied, "round.test": DNSError} {
		e, _ := fails(t, client, get(fmt.Sprintf("http://%s:%d/", host, open.Port())))
		require.Equal(t, reason, e.Reason, host)
	}
	_, err := client.Do(t.Context(), get(fmt.Sprintf("http://good.test:%d/", open.Port())))
	require.NoError(t, err)
	require.Equal(t, 1, open.Conns())
	require.Zero(t, denied.Conns())
}

func TestRebindingNamesReachNothing(t *testing.T) {
	t.Parallel()
	open, denied := twins(t)
	var lookups atomic.Int64
	names := egresstest.StartDNS(t, func(q egresstest.Question) []netip.Addr {
		if q.IPv6 {
			return nil
		}
		if lookups.Add(1)%2 == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
	})
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, names.Resolver())
	const tries = 1000
	refused := 0
	for range tries {
		_, err := client.Do(t.Context(), get(fmt.Sprintf("http://flips.test:%d/", open.Port())))
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, EgressDenied, e.Reason)
			refused++
		}
	}
	require.Zero(t, denied.Conns())
	require.Equal(t, tries/2, refused)
	require.Equal(t, tries/2, open.Conns())
}

func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	proxy := egresstest.Start(t, egresstest.Answer(closing))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy.URL())
	}
	t.Setenv("NO_PROXY", "")
	target := egresstest.Start(t, egresstest.Answer(closing))
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, named(t, map[string][]string{"target.test": {"127.0.0.1"}}))
	_, err := client.Do(t.Context(), get(fmt.Sprintf("http://target.test:%d/", target.Port())))
	require.NoError(t, err)
	require.Equal(t, 1, target.Conns())
	require.Zero(t, proxy.Conns())
}

func TestLoopbackNameUsesTheFamilyThatIsAllowed(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	resolver := named(t, map[string][]string{"a.localhost": {"::1", "127.0.0.1"}})
	client := setupClient(t, Config{Rules: Rules{Allow: prefixes("127.0.0.0/8")}}, resolver)
	_, err := client.Do(t.Context(), get(fmt.Sprintf("http://a.localhost:%d/", target.Port())))
	require.NoError(t, err)
	require.Equal(t, 1, target.Conns())
}

func TestDefaultClientRefusesLoopback(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(closing))
	client := New(Config{})
	t.Cleanup(client.Close)
	e, _ := fails(t, client, get(target.URL()))
	require.Equal(t, EgressDenied, e.Reason)
	require.Equal(t, "egress_denied: url_forbidden: must name a public address, or one that the operator allows", e.Error())
	require.Zero(t, target.Conns())
}

// silentDNS returns a resolver that never gets an answer, and a channel that is closed once it has
// been asked.
func silentDNS(t *testing.T) (resolver *net.Resolver, asked <-chan struct{}) {
	t.Helper()
	first, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	names := egresstest.StartDNS(t, func(egresstest.Question) []netip.Addr {
		once.Do(func() { close(first) })
		<-release
		return nil
	})
	t.Cleanup(func() { close(release) })
	return names.Resolver(), first
}

func TestCallersEndTheirLookups(t *testing.T) {
	t.Parallel()
	resolver, asked := silentDNS(t)
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, resolver)
	_, err := client.Do(canceledAfter(t, asked), get("http://slow.test/"))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Canceled, e.Reason)
	require.False(t, e.Sent)
	require.Positive(t, e.Phases.DNS)
	require.Zero(t, e.Phases.Connect)
}

func TestDialEndsWithItsExchange(t *testing.T) {
	t.Parallel()
	resolver, asked := silentDNS(t)
	d := &dialer{policy: NewPolicy(Rules{Allow: loopback()}), resolver: resolver, limits: Limits{}.filled()}
	exchange := canceledAfter(t, asked)
	began := time.Now()
	_, err := d.dial(exchange, remote{address: "slow.test:80"}, new(stopwatch))
	require.Error(t, err)
	require.Less(t, time.Since(began), d.limits.Connect/2)
}

func TestUnknownAndUnreachableTargets(t *testing.T) {
	t.Parallel()
	client := setupClient(t, Config{Rules: Rules{Allow: []netip.Prefix{silent()}}}, named(t, map[string][]string{"up.test": {"127.0.0.7"}}))
	e, _ := fails(t, client, get("http://nowhere.test/path?token=canary"))
	require.Equal(t, DNSError, e.Reason)
	require.False(t, e.Sent)
	require.Equal(t, "calling http://nowhere.test/path: dns_error: the host name does not exist", e.Error())

	e, _ = fails(t, client, get("http://up.test:1/path?token=canary"))
	require.Equal(t, ConnectError, e.Reason)
	require.False(t, e.Sent)
	require.Equal(t, "calling http://up.test:1/path: connect_error: connection refused", e.Error())
}

func TestNameServersThatDoNotAnswerEndInTime(t *testing.T) {
	t.Parallel()
	resolver, _ := silentDNS(t)
	request := get("http://slow.test/")
	request.Timeout = 50 * time.Millisecond
	e, _ := fails(t, setupClient(t, Config{Rules: Rules{Allow: loopback()}}, resolver), request)
	require.Equal(t, Timeout, e.Reason)
	require.Less(t, e.Phases.Total, 5*time.Second)
}
