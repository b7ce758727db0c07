package egress

import (
	"context"
	"crypto/tls"
	"io"
	"log" //nolint:depguard // The transport writes to it.
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/egress/egresstest"
	"rubato/internal/waittest"
)

func TestMain(m *testing.M) {
	// The transport writes about hostile targets; programs route that to their own log.
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// loopback permits the one address on which test targets listen; 127.0.0.2 and all others stay
// refused.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
}

// silent is a prefix without listeners on any port. On 127.0.0.1 a port that was free a moment ago
// may belong to another test's target by now.
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

// hostSlots is a semaphore for each host, in the simplest form that a client can use.
type hostSlots struct {
	limit   int
	waiting atomic.Int64 // calls that wait

	mu     sync.Mutex
	byHost map[string]chan struct{}
}

func newHostSlots(limit int) *hostSlots {
	return &hostSlots{limit: limit, byHost: map[string]chan struct{}{}}
}

func (p *hostSlots) of([16]byte) HostSlot { return &hostSlot{hostSlots: p} }

func (p *hostSlots) at(server string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byHost[server] == nil {
		p.byHost[server] = make(chan struct{}, p.limit)
	}
	return p.byHost[server]
}

// hostSlot is one of the slots.
type hostSlot struct {
	hostSlots *hostSlots
	server    string
}

func (p *hostSlot) Move(ctx context.Context, server string) error {
	if server == p.server {
		return nil
	}
	p.Release()
	p.hostSlots.waiting.Add(1)
	defer p.hostSlots.waiting.Add(-1)
	select {
	case p.hostSlots.at(server) <- struct{}{}:
		p.server = server
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *hostSlot) Release() {
	if p.server != "" {
		<-p.hostSlots.at(p.server)
		p.server = ""
	}
}

// awaitWaiting waits until of so many calls to one host as many as may have arrived there and all
// others wait.
func awaitWaiting(t *testing.T, p *hostSlots, arrived *atomic.Int64, may, calls int) {
	t.Helper()
	waittest.Until(t, func() bool { return int(arrived.Load()) == may && int(p.waiting.Load()) == calls-may })
}

// fails makes a call that must fail, and returns its error and the partial answer.
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
