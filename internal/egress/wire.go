package egress

import (
	"container/list"
	"crypto/tls"
	"sync"
	"sync/atomic"
)

// maxWires bounds how many settings of TLS and tenants keep connections at once; the one that was not used for the longest loses its.
const maxWires = 256

// wire is how calls under one TLS setting and one policy leave. Connections are shared within it and nowhere else: one that was made
// with somebody's certificate, or to where only they may call, serves nobody else.
type wire struct {
	dialer

	kept    *kept       // connections of HTTP/1.1; those of HTTP/2 are the dialer's streams
	evicted atomic.Bool // nobody finds it any more; whoever found it before may still be calling
}

func newWire(d dialer) *wire {
	d.streams = newStreams()
	return &wire{dialer: d, kept: newKept()}
}

// leave says that a call is over. What it leaves on a wire that was evicted meanwhile is of no use to anybody.
func (w *wire) leave() {
	if w.evicted.Load() {
		w.closeIdle()
	}
}

// evict makes the wire keep nothing, from now on.
func (w *wire) evict() {
	w.evicted.Store(true)
	w.closeIdle()
}

func (w *wire) closeIdle() {
	w.kept.close()
	w.streams.closeIdle()
}

// wires are the settings in use beside the usual one.
type wires struct {
	base dialer
	size int

	mu     sync.Mutex
	byKey  map[wireKey]*list.Element // of *keptWire
	recent *list.List                // the one used last in front
}

type keptWire struct {
	key  wireKey
	wire *wire
}

func newWires(base dialer, size int) *wires {
	return &wires{base: base, size: size, byKey: make(map[wireKey]*list.Element), recent: list.New()}
}

// get returns the wire for a setting.
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

// usualTLS is the TLS session of calls that ask for nothing else.
func usualTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
