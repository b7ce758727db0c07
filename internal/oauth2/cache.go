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
	fetchTimeout = 10 * time.Second // of one request for a token
	maxGrants    = 10_000           // that are kept
	renewAt      = 0.8              // of the life of a token, less up to renewSpread: so that programs do not all come at once
	renewSpread  = 0.1
	firstWait    = time.Second // after a failure; doubles up to longestWait
	longestWait  = time.Minute
	rejectWait   = 10 * time.Second // between tokens that are replaced because a target refused them
)

// Caller makes outbound calls.
type Caller interface {
	Do(ctx context.Context, r egress.Request) (egress.Response, error)
}

// Cache gets and keeps tokens. It is safe for concurrent use. Use New, and Close at the end.
type Cache struct {
	caller  Caller
	ctx     context.Context //nolint:containedctx // Of the requests in the background, which belong to no call; Close ends it.
	end     context.CancelFunc
	flights sync.WaitGroup

	mu     sync.Mutex
	grants map[key]*entry
	closed bool
}

// entry is what is known of one grant. The cache's mutex guards it.
type entry struct {
	token     string
	renewal   time.Time     // from when on it is renewed
	expiry    time.Time     // from when on it is no good
	flight    chan struct{} // closed when the request that is under way has ended; nil: none is
	failure   error         // of the last request; nil: it succeeded
	failures  int           // in a row
	notBefore time.Time     // no request before, after failures
	inBody    bool          // where the server wants the credentials
	rejected  time.Time     // when a token was last forgotten because a target refused it
	used      time.Time
}

// New returns an empty cache. It starts nothing until somebody asks for a token.
func New(caller Caller) *Cache {
	ctx, end := context.WithCancel(context.Background())
	return &Cache{caller: caller, ctx: ctx, end: end, grants: map[key]*entry{}}
}

// Close ends the requests that are under way and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.flights.Wait()
}

// Token returns a token of a grant, and gets one where there is none. It waits until ctx ends at most. Its error shows neither secrets
// nor what the server wrote, beside the codes of the RFC.
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

// look returns the token that is there, or else the request to wait for, or else the failure to live with.
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

// entry returns what is known of a grant, and forgets the one that was not asked for longest where there are too many.
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

// Reject forgets a token that a target has refused, so that whoever asks next gets another one. A newer one stays, and so does one that
// follows another that was refused within ten seconds: where a target refuses every token, the server is not to pay for it.
func (c *Cache) Reject(g Grant, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if e := c.grants[g.key()]; e != nil && e.token == token && (e.rejected.IsZero() || now.Sub(e.rejected) >= rejectWait) {
		e.token, e.rejected = "", now
	}
}

// fetch gets a token for an entry, whose flight is this.
func (c *Cache) fetch(g Grant, e *entry) {
	c.mu.Lock()
	inBody := e.inBody
	c.mu.Unlock()
	got, err := c.ask(g, inBody)
	if r, is := errors.AsType[*refusal](err); is && r.blames() { // Maybe the server wants the credentials in the other place.
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

// ask asks the token server. A panic over its answer is returned as an error: it must not end the process.
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

// took takes in a token.
func (e *entry) took(got issued, now time.Time) {
	e.token, e.failure, e.failures, e.notBefore = got.token, nil, 0, time.Time{}
	e.expiry = now.Add(got.life)
	e.renewal = e.expiry
	if got.life >= shortestLife {
		share := renewAt - renewSpread*rand.Float64() //nolint:gosec // It spreads load and guards nothing.
		e.renewal = now.Add(time.Duration(share * float64(got.life)))
		e.expiry = e.expiry.Add(-got.life / 20) // It has to last until the request arrives, on the server's clock.
	}
}

// failed takes in a failure. A token that is still good stays in use.
func (e *entry) failed(err error, now time.Time) {
	wait := min(firstWait<<min(e.failures, 10), longestWait)
	if r, is := errors.AsType[*refusal](err); is && r.wait > 0 {
		wait = min(max(wait, r.wait), longestWait)
	}
	e.failures++
	e.failure = err
	e.notBefore = now.Add(wait)
}
