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
	protocolH2 = "h2"       // by ALPN
	protocolH1 = "http/1.1" // by ALPN

	knownOrigins   = 4096             // about how many more than those with connections are remembered
	streamWindow   = 64 << 10         // bytes of one answer that may wait in memory for their reader
	sessionWindow  = 1 << 20          // of all answers on one connection
	maxBarren      = 3                // connections that a call makes to a target that takes no request on them
	stuckWriteTime = 10 * time.Second // a connection that takes no byte for so long is closed
)

// streams are the HTTP/2 connections of a wire. A request is handed to a connection that is chosen here: so nobody else can choose
// another one and send it there again.
type streams struct {
	upgrader *http.Transport // makes HTTP/2 of a connection that is there already; it keeps none
	limit    int             // how many sessions are kept, beside those with a request under way

	mu      sync.Mutex
	origins map[string]*origin // by host and port
	kept    int                // sessions of all of them
}

// origin is what is known of one host and port.
type origin struct {
	sessions []*session // replaced, never changed
	plain    bool       // speaks HTTP/1.1
	only1    bool       // wants HTTP/1.1, though it speaks HTTP/2
	probe    *probe     // a dial that is to tell what it speaks; others wait for it
}

// probe is a dial that others wait for.
type probe struct {
	done   chan struct{} // closed when the dial has ended
	failed bool          // it told nothing; whoever waited tries by itself
}

// session is an HTTP/2 connection.
type session struct {
	*conn

	client   *http.ClientConn
	frames   *frames
	used     atomic.Bool
	calledAt atomic.Int64 // when it last took a request; nanoseconds since 1970
	retired  atomic.Bool  // takes no new request, and ends with the last one
}

type raisedKey struct{}

func newStreams() *streams {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // The connections that it is given have their TLS session already.
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

// take returns a session with a place for one request. Without a session the caller has to dial: where lead is not nil others wait
// for what comes of it, and the caller must settle it.
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

// barren ends the sessions on which the target takes no request though none is under way, and reports whether there were any.
func (s *streams) barren(address string) bool {
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

// queue returns the dial that is under way to address, or a new one that is the caller's to make.
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

// origin returns what is known of address. The caller holds mu.
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

// forget drops what can be found out again. The caller holds mu.
func (s *streams) forget() {
	for address, o := range s.origins {
		if o.probe == nil && len(o.sessions) == 0 {
			delete(s.origins, address)
		}
	}
}

// settle ends p without a result, unless it had one.
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

// speaks notes what a dial to address agreed on.
func (s *streams) speaks(address string, plain bool, added *session) {
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

// offers returns the protocols that a dial to address may agree on.
func (s *streams) offers(address string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.origins[address]; o != nil && o.only1 {
		return []string{protocolH1}
	}
	return []string{protocolH2, protocolH1}
}

// insist remembers that address wants HTTP/1.1. The request that learned of it has failed; the next ones go right.
func (s *streams) insist(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origin(address)
	o.only1, o.plain = true, true
	for _, each := range o.sessions {
		each.retired.Store(true)
	}
}

// raise makes an HTTP/2 session of c and keeps it.
func (s *streams) raise(ctx context.Context, address string, c *conn) error {
	c.frames = newFrames()
	client, err := s.upgrader.NewClientConn(context.WithValue(ctx, raisedKey{}, net.Conn(c)), "https", address)
	if err != nil {
		return err
	}
	added := &session{conn: c, client: client, frames: c.frames}
	client.SetStateHook(func(*http.ClientConn) {
		switch {
		case client.Err() != nil:
			s.drop(address, added)
		case added.retired.Load() && client.InFlight() == 0:
			_ = client.Close()
		}
	})
	added.calledAt.Store(time.Now().UnixNano())
	s.speaks(address, false, added)
	if client.Err() != nil { // The hook may have been called before there was anything to drop.
		s.drop(address, added)
	}
	s.thin()
	return nil
}

// thin ends sessions on which no request is under way where more are kept than may be: those that were not called for the longest, and some
// more of them than it must, so that not every new session has to look at all.
func (s *streams) thin() {
	all := s.crowd()
	if all == nil {
		return
	}
	excess := len(all) - s.limit + s.limit/16
	idle := slices.DeleteFunc(all, func(each *session) bool { return !each.used.Load() || each.client.InFlight() > 0 }) // Who dialled comes yet.
	slices.SortFunc(idle, func(a, b *session) int { return cmp.Compare(a.calledAt.Load(), b.calledAt.Load()) })
	for _, each := range idle[:min(excess, len(idle))] {
		each.retire()
	}
}

// crowd returns all sessions where there are more than may be kept, else none.
func (s *streams) crowd() []*session {
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

// drop forgets a session that has ended.
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

// retire lets s end with its last request.
func (s *session) retire() {
	s.retired.Store(true)
	if s.client.InFlight() == 0 {
		_ = s.client.Close()
	}
}

// closeIdle closes the sessions on which no request is under way, and lets the others end with their last one.
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
