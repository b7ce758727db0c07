package egress

import (
	"container/list"
	"crypto/tls"
	"sync"
	"sync/atomic"
)

// maxTransports bounds the cached transports beside the default one. Beyond it, the least recently
// used one is evicted.
const maxTransports = 256

// transport is the transport for one TLS setting and one policy. Connections are never shared
// between transports, because a connection may carry the client certificate of an endpoint or lead
// to an address of one tenant's allow list.
type transport struct {
	dialer

	pool *idlePool // idle HTTP/1.1 connections; dialer.streams has those of HTTP/2
	// evicted: the transport is out of the cache. Calls that hold it may still be in flight.
	evicted atomic.Bool
}

func newTransport(d dialer) *transport {
	d.streams = newStreams()
	return &transport{dialer: d, pool: newIdlePool()}
}

// leave ends a call. It closes idle connections of an evicted transport, because no later call can
// use them.
func (w *transport) leave() {
	if w.evicted.Load() {
		w.closeIdle()
	}
}

// evict closes idle connections, now and after each remaining call.
func (w *transport) evict() {
	w.evicted.Store(true)
	w.closeIdle()
}

func (w *transport) closeIdle() {
	w.pool.close()
	w.streams.closeIdle()
}

// transportCache is an LRU cache of transports beside the default one.
type transportCache struct {
	base dialer
	size int

	mu     sync.Mutex
	byKey  map[transportKey]*list.Element // of *cachedTransport
	recent *list.List                     // most recently used first
}

type cachedTransport struct {
	key       transportKey
	transport *transport
}

func newTransportCache(base dialer, size int) *transportCache {
	return &transportCache{
		base:   base,
		size:   size,
		byKey:  make(map[transportKey]*list.Element),
		recent: list.New(),
	}
}

// get returns the transport for a setting and an allowance, and creates it if needed.
func (w *transportCache) get(setting TLS, a *Allowance) (*transport, error) {
	key := setting.key(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if kept := w.byKey[key]; kept != nil {
		w.recent.MoveToFront(kept)
		return kept.Value.(*cachedTransport).transport, nil
	}
	cfg, err := setting.config(w.base.tls)
	if err != nil {
		return nil, &fault{reason: TLSError, err: err}
	}
	d := w.base
	d.tls, d.policy = cfg, d.policy.With(a)
	made := newTransport(d)
	w.byKey[key] = w.recent.PushFront(&cachedTransport{key: key, transport: made})
	if w.recent.Len() > w.size {
		oldest := w.recent.Remove(w.recent.Back()).(*cachedTransport)
		delete(w.byKey, oldest.key)
		oldest.transport.evict()
	}
	return made, nil
}

func (w *transportCache) closeIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kept := range w.byKey {
		kept.Value.(*cachedTransport).transport.closeIdle()
	}
}

// usualTLS returns the default TLS configuration.
func usualTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
