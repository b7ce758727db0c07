package oauth2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"rubato/internal/egress"
)

const (
	fetchTimeout = 10 * time.Second // deadline of one token request
	maxGrants    = 10_000           // capacity of the cache; the least recently used grant is evicted
	renewAt      = 0.8              // share of a token's life after which it is renewed
	renewSpread  = 0.1              // jitter that is subtracted from renewAt, so that processes do not renew at once
	firstWait    = time.Second      // backoff after a failure; doubles up to longestWait
	longestWait  = time.Minute
	rejectWait   = 10 * time.Second // minimum time between tokens that are replaced because a target refused them
)

// Caller sends outbound HTTP requests.
type Caller interface {
	Do(ctx context.Context, r egress.Request) (egress.Response, error)
}

// Cache fetches and caches tokens. It is safe for concurrent use. Call New, and Close at the end.
type Cache struct {
	caller Caller
	// ctx is the context of background requests, which belong to no call. Close cancels it.
	ctx     context.Context //nolint:containedctx // It ends with Close, not with a call.
	end     context.CancelFunc
	flights sync.WaitGroup

	mu     sync.Mutex // guards the fields below, and every entry
	grants map[key]*entry
	closed bool
}

// entry is the cached state of one grant. The mutex of the cache guards it.
type entry struct {
	token string
	// renewal is the instant from which the token is renewed in the background.
	renewal time.Time
	// expiry is the instant from which the token is not used.
	expiry time.Time
	// flight is closed at the end of the request in flight; nil: none is in flight.
	flight chan struct{}
	// failure is the error of the last request; nil: it succeeded.
	failure error
	// failures counts the consecutive failures.
	failures int
	// notBefore is the end of the backoff.
	notBefore time.Time
	// inBody is the location of the credentials that the server accepted.
	inBody bool
	// rejected is when a target last refused a token.
	rejected time.Time
	used     time.Time
}

// New returns an empty cache. It starts no goroutine until a token is requested.
func New(caller Caller) *Cache {
	ctx, end := context.WithCancel(context.Background())
	return &Cache{
		caller: caller,
		ctx:    ctx,
		end:    end,
		grants: map[key]*entry{},
	}
}

// Close cancels the requests in flight and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.flights.Wait()
}

// Token returns a token of a grant, from the cache or from the token server. It waits until ctx
// ends at most. The error contains no secret, and of the server's answer only the codes of the RFC.
func (c *Cache) Token(ctx context.Context, g Grant) (string, error) {
	for {
		token, flight, err := c.look(g)
		if err != nil {
			return "", fmt.Errorf("getting an access token: %w", err)
		}
		if flight == nil {
			return token, nil
		}
		select {
		case <-flight:
		case <-ctx.Done():
			return "", errLate
		}
	}
}

var (
	errClosed = errors.New("the program is stopping")
	errLate   = errors.New("getting an access token: the token server did not answer in time")
)

// look returns a cached token, or else the request in flight to wait for, or else the failure that
// the backoff still holds.
func (c *Cache) look(g Grant) (token string, flight <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	e := c.entry(g.key(), now)
	good := e.token != "" && now.Before(e.expiry)
	if e.flight == nil && (!good || !now.Before(e.renewal)) && !now.Before(e.notBefore) && !c.closed {
		e.flight = make(chan struct{})
		c.flights.Go(func() { c.fetch(g, e) })
	}
	switch {
	case good:
		return e.token, nil, nil
	case e.flight != nil:
		return "", e.flight, nil
	case e.failure != nil:
		return "", nil, e.failure
	default:
		return "", nil, errClosed
	}
}

// entry returns the state of a grant, and evicts the least recently used one if the cache is full.
func (c *Cache) entry(k key, now time.Time) *entry {
	e := c.grants[k]
	if e == nil {
		if len(c.grants) >= maxGrants {
			c.forget()
		}
		e = &entry{}
		c.grants[k] = e
	}
	e.used = now
	return e
}

func (c *Cache) forget() {
	var oldest key
	var used time.Time
	for k, e := range c.grants {
		if used.IsZero() || e.used.Before(used) {
			oldest, used = k, e.used
		}
	}
	delete(c.grants, oldest)
}

// Reject drops a token that a target refused, so that the next caller gets a fresh one. A newer
// token stays. So does one that replaced a refused token within ten seconds, because a target that
// refuses every token must not flood the token server.
func (c *Cache) Reject(g Grant, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if e := c.grants[g.key()]; e != nil && e.token == token && (e.rejected.IsZero() || now.Sub(e.rejected) >= rejectWait) {
		e.token, e.rejected = "", now
	}
}

// fetch requests a token for an entry. It runs in the goroutine of the entry's flight.
func (c *Cache) fetch(g Grant, e *entry) {
	c.mu.Lock()
	inBody := e.inBody
	c.mu.Unlock()
	got, err := c.ask(g, inBody)
	// Some servers require the credentials in the other location.
	if r, is := errors.AsType[*refusal](err); is && r.blames() {
		if second, other := c.ask(g, !inBody); other == nil {
			got, err, inBody = second, nil, !inBody
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.flight)
	e.flight = nil
	if err != nil {
		e.failed(err, time.Now())
		return
	}
	e.inBody = inBody
	e.took(got, time.Now())
}

// ask sends one token request. It converts a panic into an error, so that an unexpected answer does
// not end the process.
func (c *Cache) ask(g Grant, inBody bool) (_ issued, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("getting an access token: a fault inside Rubato: %v", fault)
		}
	}()
	got, err := c.caller.Do(c.ctx, g.request(inBody))
	if err != nil {
		return issued{}, err
	}
	return read(got, time.Now())
}

// took stores a token.
func (e *entry) took(got issued, now time.Time) {
	e.token, e.failure, e.failures, e.notBefore = got.token, nil, 0, time.Time{}
	e.expiry = now.Add(got.life)
	e.renewal = e.expiry
	if got.life >= shortestLife {
		share := renewAt - renewSpread*rand.Float64() //nolint:gosec // Jitter needs no cryptographic randomness.
		e.renewal = now.Add(time.Duration(share * float64(got.life)))
		e.expiry = e.expiry.Add(-got.life / 20) // The token must still be valid when the request arrives, by the server's clock.
	}
}

// failed stores a failure. A token that is still valid stays in use.
func (e *entry) failed(err error, now time.Time) {
	wait := min(firstWait<<min(e.failures, 10), longestWait)
	if r, is := errors.AsType[*refusal](err); is && r.wait > 0 {
		wait = min(max(wait, r.wait), longestWait)
	}
	e.failures++
	e.failure = err
	e.notBefore = now.Add(wait)
}
