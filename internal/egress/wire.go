package egress

import (
	"container/list"
	"crypto/tls"
	"sync"
	"sync/atomic"
)

// maxWires bounds the cached transports beside the default one. Beyond it, the least recently used
// one is evicted.
const maxWires = 256

// wire is the transport for one TLS setting and one policy. Connections are never shared between
// transports, because a connection may carry the client certificate of an endpoint or lead to an
// address of one tenant's allow list.
type wire struct {
	dialer

	kept *kept // idle HTTP/1.1 connections; dialer.streams has those of HTTP/2
	// evicted: the transport is out of the cache. Calls that hold it may still be in flight.
	evicted atomic.Bool
}

func newWire(d dialer) *wire {
	d.streams = newStreams()
	return &wire{dialer: d, kept: newKept()}
}

// leave ends a call. It closes idle connections of an evicted transport, because no later call can
// use them.
func (w *wire) leave() {
	if w.evicted.Load() {
		w.closeIdle()
	}
}

// evict closes idle connections, now and after each remaining call.
func (w *wire) evict() {
	w.evicted.Store(true)
	w.closeIdle()
}

func (w *wire) closeIdle() {
	w.kept.close()
	w.streams.closeIdle()
}

// wires is an LRU cache of transports beside the default one.
type wires struct {
	base dialer
	size int

	mu     sync.Mutex
	byKey  map[wireKey]*list.Element // of *keptWire
	recent *list.List                // most recently used first
}

type keptWire struct {
	key  wireKey
	wire *wire
}

func newWires(base dialer, size int) *wires {
	return &wires{base: base, size: size, byKey: make(map[wireKey]*list.Element), recent: list.New()}
}

// get returns the transport for a setting and an allowance, and creates it if needed.
func (w *wires) get(setting TLS, a *Allowance) (*wire, error) {
	key := setting.key(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if kept := w.byKey[key]; kept != nil {
		w.recent.MoveToFront(kept)
		return kept.Value.(*keptWire).wire, nil
	}
	cfg, err := setting.config(w.base.tls)
	if err != nil {
		return nil, &fault{reason: TLSError, err: err}
	}
	d := w.base
	d.tls, d.policy = cfg, d.policy.With(a)
	made := newWire(d)
	w.byKey[key] = w.recent.PushFront(&keptWire{key: key, wire: made})
	if w.recent.Len() > w.size {
		oldest := w.recent.Remove(w.recent.Back()).(*keptWire)
		delete(w.byKey, oldest.key)
		oldest.wire.evict()
	}
	return made, nil
}

func (w *wires) closeIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kept := range w.byKey {
		kept.Value.(*keptWire).wire.closeIdle()
	}
}

// usualTLS returns the default TLS configuration.
func usualTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
