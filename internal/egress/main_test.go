package egress

import (
	"context"
	"crypto/tls"
	"io"
	"log" //nolint:depguard // The transport writes to it.
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/egress/egresstest"
	"rubato/internal/waittest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // The transport writes about hostile targets; programs route that to their own log.
	goleak.VerifyTestMain(m)
}

// loopback permits the one address on which test targets listen; 127.0.0.2 and all others stay refused.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
}

// silent is an address on which nobody listens, whatever the port. A port of 127.0.0.1 that was free a moment ago may be that of another
// test's target by now.
func silent() netip.Prefix { return netip.MustParsePrefix("127.0.0.7/32") }

// setup returns a client that may call test targets, closed when the test ends.
func setup(t *testing.T) *Client {
	t.Helper()
	return setupClient(t, Config{Rules: Rules{Allow: loopback()}}, net.DefaultResolver)
}

func setupClient(t *testing.T, cfg Config, resolver *net.Resolver) *Client {
	t.Helper()
	c := newClient(cfg, resolver, &tls.Config{MinVersion: tls.VersionTLS12})
	t.Cleanup(c.Close)
	return c
}

// get is a request that most tests need: whole answer, generous bounds.
func get(url string) Request {
	return Request{Method: http.MethodGet, URL: url, Timeout: 20 * time.Second, MaxBody: 64 << 10}
}

// awaitSeated waits until of so many calls to one host as many as may have arrived there and all others wait.
func awaitSeated(t *testing.T, c *Client, arrived *atomic.Int64, may, calls int) {
	t.Helper()
	waittest.Until(t, func() bool { return int(arrived.Load()) == may && c.seats.waiting() == calls-may })
}

// fails makes the call and returns its error and what came of the answer.
func fails(t *testing.T, c *Client, r Request) (*Error, Response) {
	t.Helper()
	response, err := c.Do(t.Context(), r)
	require.Error(t, err)
	var e *Error
	require.ErrorAs(t, err, &e)
	return e, response
}

// named returns a resolver that knows the given names.
func named(t *testing.T, addresses map[string][]string) *net.Resolver {
	t.Helper()
	return egresstest.StartDNS(t, func(q egresstest.Question) []netip.Addr {
		var addrs []netip.Addr
		for _, text := range addresses[q.Name] {
			addrs = append(addrs, netip.MustParseAddr(text))
		}
		return addrs
	}).Resolver()
}

// canceledAfter returns a context that ends as soon as signal is closed.
func canceledAfter(t *testing.T, signal <-chan struct{}) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		<-signal
		cancel()
	}()
	return ctx
}
