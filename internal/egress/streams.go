package egress

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	protocolH2 = "h2"       // ALPN
	protocolH1 = "http/1.1" // ALPN

	// Number of origins beyond which those without a session are forgotten.
	knownOrigins  = 4096
	streamWindow  = 64 << 10 // buffered bytes of one answer
	sessionWindow = 1 << 20  // buffered bytes of all answers on one connection
	// Connections per call to a target that accepts no stream on them.
	maxUnusable    = 3
	stuckWriteTime = 10 * time.Second // a connection that accepts no byte for so long is closed
)

// streams is the pool of HTTP/2 sessions of a transport. It selects the session of each request
// itself, so that the standard library cannot repeat the request on another one.
type streams struct {
	upgrader *http.Transport // makes an HTTP/2 session of an open connection; pools none
	limit    int             // maximum of sessions, beside those with a request in flight

	mu      sync.Mutex
	origins map[string]*origin // by host and port
	kept    int                // number of sessions of all origins
}

// origin is the state of one host and port.
type origin struct {
	sessions []*session // copy on write, because readers use the slice without mu
	plain    bool       // only HTTP/1.1
	only1    bool       // requires HTTP/1.1, although it negotiates HTTP/2
	probe    *probe     // dial in progress to learn the protocol; other calls wait for it
}

// probe is a dial in progress with other callers waiting for its result.
type probe struct {
	done   chan struct{} // closed at the end of the dial
	failed bool          // the dial had no result, so that each waiting call dials by itself
}

// session is an HTTP/2 connection.
type session struct {
	*conn

	client   *http.ClientConn
	frames   *frames
	used     atomic.Bool
	calledAt atomic.Int64 // last request; Unix nanoseconds
	retired  atomic.Bool  // accepts no new request, and closes after the last one
}

type raisedKey struct{}

func newStreams() *streams {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // The connections already have a TLS session.
	return &streams{
		limit:   idleConns,
		origins: make(map[string]*origin),
		upgrader: &http.Transport{
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, _ := ctx.Value(raisedKey{}).(net.Conn)
				return c, nil
			},
			Protocols:              protocols,
			DisableCompression:     true,
			IdleConnTimeout:        idleConnTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			HTTP2: &http.HTTP2Config{
				MaxReceiveBufferPerConnection: sessionWindow,
				MaxReceiveBufferPerStream:     streamWindow,
				WriteByteTimeout:              stuckWriteTime,
			},
		},
	}
}

// take returns a session with a reserved stream. Without a session the caller must dial. If lead is
// not nil, other calls wait for this dial, therefore the caller must call settle.
func (s *streams) take(ctx context.Context, address string) (found *session, lead *probe, err error) {
	for {
		sessions, plain := s.look(address)
		for _, candidate := range sessions {
			if !candidate.retired.Load() && candidate.client.Reserve() == nil {
				return candidate, nil, nil
			}
		}
		if plain {
			return nil, nil, nil
		}
		p, mine := s.queue(address)
		if mine {
			return nil, p, nil
		}
		select {
		case <-p.done:
			if p.failed {
				return nil, nil, nil
			}
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// retireUnusable retires the sessions on which the target accepts no stream although none is open,
// and reports whether it found one.
func (s *streams) retireUnusable(address string) bool {
	sessions, _ := s.look(address)
	found := false
	for _, each := range sessions {
		if each.client.Available() == 0 && each.client.InFlight() == 0 && each.client.Err() == nil && !each.frames.leaving() {
			found = true
			each.retire()
		}
	}
	return found
}

func (s *streams) look(address string) (sessions []*session, plain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origins[address]
	if o == nil {
		return nil, false
	}
	return o.sessions, o.plain
}

// queue returns the dial in progress to address, or a new one for the caller to make.
func (s *streams) queue(address string) (p *probe, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origin(address)
	if o.probe != nil {
		return o.probe, false
	}
	o.probe = &probe{done: make(chan struct{})}
	return o.probe, true
}

// origin returns the state of address, and creates it if needed. The caller holds mu.
func (s *streams) origin(address string) *origin {
	o := s.origins[address]
	if o == nil {
		if len(s.origins) >= knownOrigins {
			s.forget()
		}
		o = new(origin)
		s.origins[address] = o
	}
	return o
}

// forget drops origins without sessions and dials, because another dial restores their state. The
// caller holds mu.
func (s *streams) forget() {
	for address, o := range s.origins {
		if o.probe == nil && len(o.sessions) == 0 {
			delete(s.origins, address)
		}
	}
}

// settle ends p as failed, unless setProtocol has ended it with a result.
func (s *streams) settle(address string, p *probe) {
	if p == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.origins[address]; o != nil && o.probe == p {
		p.failed = true
		close(p.done)
		o.probe = nil
	}
}

// setProtocol records the protocol negotiated with address, and ends the probe.
func (s *streams) setProtocol(address string, plain bool, added *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origin(address)
	o.plain = plain
	if added != nil {
		o.sessions = append(slices.Clip(o.sessions), added)
		s.kept++
	}
	if o.probe != nil {
		close(o.probe.done)
		o.probe = nil
	}
}

// offers returns the ALPN protocols for a dial to address.
func (s *streams) offers(address string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.origins[address]; o != nil && o.only1 {
		return []string{protocolH1}
	}
	return []string{protocolH2, protocolH1}
}

// insist records that address requires HTTP/1.1, and retires its sessions. The current request has
// failed; later requests use HTTP/1.1.
func (s *streams) insist(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origin(address)
	o.only1, o.plain = true, true
	for _, each := range o.sessions {
		each.retired.Store(true)
	}
}

// raise makes an HTTP/2 session of c and adds it to the pool.
func (s *streams) raise(ctx context.Context, address string, c *conn) error {
	c.frames = newFrames()
	client, err := s.upgrader.NewClientConn(context.WithValue(ctx, raisedKey{}, net.Conn(c)), "https", address)
	if err != nil {
		return err
	}
	added := &session{
		conn:   c,
		client: client,
		frames: c.frames,
	}
	client.SetStateHook(func(*http.ClientConn) {
		switch {
		case client.Err() != nil:
			s.drop(address, added)
		case added.retired.Load() && client.InFlight() == 0:
			_ = client.Close()
		}
	})
	added.calledAt.Store(time.Now().UnixNano())
	s.setProtocol(address, false, added)
	if client.Err() != nil { // The hook may have run before the session was added.
		s.drop(address, added)
	}
	s.evictIdle()
	return nil
}

// evictIdle retires the least recently used idle sessions if the pool is over its limit. It retires
// more than necessary, by a sixteenth of the limit, so that not every new session causes a full
// scan.
func (s *streams) evictIdle() {
	all := s.overLimit()
	if all == nil {
		return
	}
	excess := len(all) - s.limit + s.limit/16
	// Skip unused sessions, because the dialing call is about to use its session.
	idle := slices.DeleteFunc(all, func(each *session) bool { return !each.used.Load() || each.client.InFlight() > 0 })
	slices.SortFunc(idle, func(a, b *session) int { return cmp.Compare(a.calledAt.Load(), b.calledAt.Load()) })
	for _, each := range idle[:min(excess, len(idle))] {
		each.retire()
	}
}

// overLimit returns all sessions if the pool is over its limit, or nil.
func (s *streams) overLimit() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept <= s.limit {
		return nil
	}
	all := make([]*session, 0, s.kept)
	for _, o := range s.origins {
		all = append(all, o.sessions...)
	}
	return all
}

// drop removes an ended session from the pool.
func (s *streams) drop(address string, ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origins[address]
	if o == nil {
		return
	}
	if i := slices.Index(o.sessions, ended); i >= 0 {
		o.sessions = slices.Concat(o.sessions[:i], o.sessions[i+1:])
		s.kept--
	}
}

// retire excludes s from new requests, and closes it after its last one.
func (s *session) retire() {
	s.retired.Store(true)
	if s.client.InFlight() == 0 {
		_ = s.client.Close()
	}
}

// closeIdle closes sessions without a request, and retires the others.
func (s *streams) closeIdle() {
	s.mu.Lock()
	var all []*session
	for _, o := range s.origins {
		all = append(all, o.sessions...)
	}
	s.mu.Unlock()
	for _, each := range all {
		each.retire()
	}
}
