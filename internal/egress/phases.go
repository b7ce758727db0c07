package egress

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// Phases tells where the time of an exchange went. A phase that did not happen, such as connecting on a kept connection, is
// zero. With redirects each phase is the sum over all hops; Total also covers what lies between phases.
type Phases struct {
	DNS      time.Duration // resolving the name
	Connect  time.Duration // TCP
	TLS      time.Duration // handshake
	Wait     time.Duration // from having a connection to the first byte of the answer: sending and the target's work
	Transfer time.Duration // from the first to the last byte read of the answer
	Total    time.Duration // the whole exchange
}

// phase is a step of one attempt; they come in this order.
type phase int

const (
	beforeDial phase = iota
	resolving
	connecting
	handshaking
	waiting
	transferring
	over
)

// stopwatch attributes the time of one attempt to its phases. A name with several addresses is dialled at more than one of them, which may go
// on for a moment after one has answered: such late news name an earlier phase and are ignored.
type stopwatch struct {
	mu      sync.Mutex
	current phase
	since   time.Time
	spent   [over]time.Duration
}

// enter ends the current phase and begins p, which must come later.
func (w *stopwatch) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p <= w.current {
		return
	}
	now := time.Now()
	if w.current != beforeDial {
		w.spent[w.current] += now.Sub(w.since)
	}
	w.current, w.since = p, now
}

// resume takes back that the answer began: it was another wait until then.
func (w *stopwatch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != transferring {
		return
	}
	now := time.Now()
	w.spent[waiting] += now.Sub(w.since)
	w.current, w.since = waiting, now
}

// addTo ends the current phase and adds all of them to p.
func (w *stopwatch) addTo(p *Phases) {
	w.enter(over)
	w.mu.Lock()
	defer w.mu.Unlock()
	p.DNS += w.spent[resolving]
	p.Connect += w.spent[connecting]
	p.TLS += w.spent[handshaking]
	p.Wait += w.spent[waiting]
	p.Transfer += w.spent[transferring]
}

// dialing returns ctx for a dial that drives w. Without a name to resolve, connecting comes first. Most attempts find a connection, so
// only those that dial pay for it.
func (w *stopwatch) dialing(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { w.enter(resolving) },
		ConnectStart: func(_, _ string) { w.enter(connecting) },
	})
}
