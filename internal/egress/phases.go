package egress

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// Phases is the duration of each phase of an exchange. A skipped phase is zero, e.g. Connect on a
// pooled connection. With redirects, each phase is the sum of all hops. Total also covers the time
// between phases.
type Phases struct {
	DNS     time.Duration // name resolution
	Connect time.Duration // TCP
	TLS     time.Duration // handshake
	// Wait is the time from a ready connection to the first byte of the answer: sending and the
	// target's work.
	Wait     time.Duration
	Transfer time.Duration // first to last byte read of the answer
	Total    time.Duration // whole exchange
}

// phase is a step of one attempt, in ascending order.
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

// stopwatch measures the phases of one attempt. It ignores events of earlier phases, because
// parallel dials to several addresses of a name may continue after one has succeeded.
type stopwatch struct {
	mu      sync.Mutex
	current phase
	since   time.Time
	spent   [over]time.Duration
}

// enter ends the current phase and begins p. It ignores a p that is not later.
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

// resume returns to the waiting phase after an interim answer.
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

// addTo ends the current phase and adds all phases to p.
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

// dialing returns ctx with the trace hooks of a dial. An address without a name has no resolving
// phase. The hooks are installed per dial, because most attempts use a pooled connection and need
// none.
func (w *stopwatch) dialing(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { w.enter(resolving) },
		ConnectStart: func(_, _ string) { w.enter(connecting) },
	})
}
