package dispatch_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/dispatch/ready"
	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/waittest"
)

// bounded makes a worker and its outbound calls share a limit of one request in flight to each
// host.
func bounded(t *testing.T, cfg *dispatch.Config) {
	t.Helper()
	hosts := ready.NewHosts(1)
	client := egress.New(egress.Config{
		Rules:     egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		HostSlots: hostSlotsOf(hosts),
	})
	t.Cleanup(client.Close)
	cfg.Hosts, cfg.Egress = hosts, client
}

// TestRedirectsAndStartsShareTheBoundOfAHost redirects a run to the host of a second endpoint. The
// second one must not start while the redirected request is in flight there.
func TestRedirectsAndStartsShareTheBoundOfAHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	first := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", target.URL())))
	b.register(t, first, func(s *endpoints.Spec) { s.FollowRedirects = 1 })
	p := b.work(t, func(cfg *dispatch.Config) { bounded(t, cfg) })
	waittest.Receive(t, target.arrived)
	b.register(t, target.Target, nil)
	waittest.Until(t, func() bool { return p.WaitingForHost() == 1 })
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM live_runs"), "what waits for its host has not started")

	target.letGo <- struct{}{}
	waittest.Receive(t, target.arrived)
	target.letGo <- struct{}{}
	b.await(t, 2, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	require.EqualValues(t, 1, target.most.Load())
	p.stop(t)
}

// TestTokenFromTheHostOfTheTargetNeedsNoSecondPlace gets the access token from the host that the
// run calls, to which only one request may be in flight. The run must not hold the slot meanwhile.
func TestTokenFromTheHostOfTheTargetNeedsNoSecondPlace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"client": "client-s3cret"})
	issuer := &tokens{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			issuer.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b.register(t, answering(t), func(s *endpoints.Spec) { s.URL, s.Auth = server.URL, oauth2(server) })
	b.work(t, func(cfg *dispatch.Config) {
		know(cfg)
		bounded(t, cfg)
	})
	b.awaitTimely(t, 1)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
}
