package egress

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// idleCheckPeriod is the interval of the idle-pool cleanup. It closes connections that are past the
// idle timeout or closed by the target.
const idleCheckPeriod = idleConnTimeout / 6

// remote is the destination of an HTTP/1.1 connection.
type remote struct {
	secure  bool   // over TLS
	address string // host and port
}

// idlePool is the idle connection pool for HTTP/1.1 of a transport. No goroutine reads from idle
// connections, therefore take checks each one first.
type idlePool struct {
	mu      sync.Mutex
	remotes map[remote][]*idle // most recently used last; take starts there
	all     *list.List         // of *idle, most recently used last
	watch   *time.Timer        // cleanup timer; nil while the pool is empty
}

// idle is a connection in the pool.
type idle struct {
	conn    *conn
	to      remote
	since   time.Time
	element *list.Element // nil when it is out of the pool
}

func newIdlePool() *idlePool { return &idlePool{remotes: make(map[remote][]*idle), all: list.New()} }

// take removes a usable connection to a remote from the pool, or returns nil. The caller owns it.
func (k *idlePool) take(to remote) *conn {
	for {
		c := k.pop(to)
		if c == nil || c.quiet() {
			return c
		}
		_ = c.Close()
	}
}

func (k *idlePool) pop(to remote) *conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	there := k.remotes[to]
	if len(there) == 0 {
		return nil
	}
	last := there[len(there)-1]
	k.remove(last)
	return last.conn
}

// keep returns a connection to the pool after its answer was read to the end. If the pool is full,
// it closes the least recently used connection: of the same remote at its bound, else of all.
func (k *idlePool) keep(to remote, c *conn) {
	if surplus := k.push(&idle{
		conn:  c,
		to:    to,
		since: time.Now(),
	}); surplus != nil {
		_ = surplus.Close()
	}
}

func (k *idlePool) push(i *idle) (surplus *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch there := k.remotes[i.to]; {
	case len(there) >= idleConnsPerHost:
		surplus = there[0].conn
		k.remove(there[0])
	case k.all.Len() >= idleConns:
		oldest := k.all.Front().Value.(*idle) //nolint:forcetypeassert // Nothing else is put in.
		surplus = oldest.conn
		k.remove(oldest)
	}
	k.remotes[i.to] = append(k.remotes[i.to], i)
	i.element = k.all.PushBack(i)
	if k.watch == nil {
		k.watch = time.AfterFunc(idleCheckPeriod, k.look)
	}
	return surplus
}

// remove takes a connection out of the pool. The caller holds mu.
func (k *idlePool) remove(i *idle) {
	k.all.Remove(i.element)
	i.element = nil
	there := k.remotes[i.to]
	if len(there) == 1 {
		delete(k.remotes, i.to)
		return
	}
	at := len(there) - 1
	for there[at] != i { // Usually the last one.
		at--
	}
	k.remotes[i.to] = slices.Delete(there, at, at+1)
}

// look closes expired and broken connections, and reschedules itself while the pool is not empty.
func (k *idlePool) look() {
	for _, i := range k.list() {
		if (time.Since(i.since) >= idleConnTimeout || i.conn.unread()) && k.forget(i) {
			_ = i.conn.Close()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all.Len() == 0 {
		k.watch = nil
		return
	}
	k.watch.Reset(idleCheckPeriod)
}

// forget takes a connection out of the pool. It returns false if a concurrent call has taken it.
func (k *idlePool) forget(i *idle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i.element == nil {
		return false
	}
	k.remove(i)
	return true
}

func (k *idlePool) list() []*idle {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*idle, 0, k.all.Len())
	for e := k.all.Front(); e != nil; e = e.Next() {
		list = append(list, e.Value.(*idle)) //nolint:forcetypeassert // Nothing else is put in.
	}
	return list
}

// close closes all connections in the pool.
func (k *idlePool) close() {
	for _, i := range k.list() {
		if k.forget(i) {
			_ = i.conn.Close()
		}
	}
}
