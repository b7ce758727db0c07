package egress

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// keptLook is how often the connections that are kept are looked at: those that are too old, or that the target has closed, go.
const keptLook = idleConnTimeout / 6

// remote is where a connection of HTTP/1.1 leads to.
type remote struct {
	secure  bool   // over TLS
	address string // host and port
}

// kept are the idle connections of HTTP/1.1 of a wire. Nobody reads from them, so whoever takes one looks first whether it is still good.
type kept struct {
	mu      sync.Mutex
	remotes map[remote][]*idle // the one that was used last at the end, and taken first
	all     *list.List         // of *idle, likewise
	watch   *time.Timer        // nil while none are kept
}

// idle is a connection that is kept.
type idle struct {
	conn  *conn
	to    remote
	since time.Time
	place *list.Element // nil once it was taken
}

func newKept() *kept { return &kept{remotes: make(map[remote][]*idle), all: list.New()} }

// take returns a good connection to a remote, which is the caller's from now on, or nil.
func (k *kept) take(to remote) *conn {
	for {
		c := k.pop(to)
		if c == nil || c.quiet() {
			return c
		}
		_ = c.Close()
	}
}

func (k *kept) pop(to remote) *conn {
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

// keep takes back a connection whose last answer was read to its end. Where there are too many, one that was not used for longer is closed.
func (k *kept) keep(to remote, c *conn) {
	if surplus := k.push(&idle{conn: c, to: to, since: time.Now()}); surplus != nil {
		_ = surplus.Close()
	}
}

func (k *kept) push(i *idle) (surplus *conn) {
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
	i.place = k.all.PushBack(i)
	if k.watch == nil {
		k.watch = time.AfterFunc(keptLook, k.look)
	}
	return surplus
}

// remove takes a connection out. The caller holds mu.
func (k *kept) remove(i *idle) {
	k.all.Remove(i.place)
	i.place = nil
	there := k.remotes[i.to]
	if len(there) == 1 {
		delete(k.remotes, i.to)
		return
	}
	at := len(there) - 1
	for there[at] != i { // Mostly it is the last one.
		at--
	}
	k.remotes[i.to] = slices.Delete(there, at, at+1)
}

// look closes what is too old, or of no use any more, and looks again while anything is kept.
func (k *kept) look() {
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
	k.watch.Reset(keptLook)
}

// forget takes a connection out, unless somebody has taken it meanwhile.
func (k *kept) forget(i *idle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i.place == nil {
		return false
	}
	k.remove(i)
	return true
}

func (k *kept) list() []*idle {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*idle, 0, k.all.Len())
	for e := k.all.Front(); e != nil; e = e.Next() {
		list = append(list, e.Value.(*idle)) //nolint:forcetypeassert // Nothing else is put in.
	}
	return list
}

// close closes all that are kept now.
func (k *kept) close() {
	for _, i := range k.list() {
		if k.forget(i) {
			_ = i.conn.Close()
		}
	}
}
