// Package quota bounds how many things are open at once, for one key and for all of them.
package quota

import "sync"

// Quota counts what is open. It is safe for concurrent use. Use New.
type Quota struct {
	perKey, all int

	mu   sync.Mutex
	keys map[[16]byte]int
	open int
}

// New returns a quota that nothing is taken of.
func New(perKey, all int) *Quota { return &Quota{perKey: perKey, all: all, keys: map[[16]byte]int{}} }

// Acquire counts one more of a key. Unless ok, it is one too many; else release must be called once.
func (q *Quota) Acquire(key [16]byte) (release func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open >= q.all || q.keys[key] >= q.perKey {
		return nil, false
	}
	q.open++
	q.keys[key]++
	return func() { q.release(key) }, true
}

func (q *Quota) release(key [16]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	if q.keys[key]--; q.keys[key] == 0 {
		delete(q.keys, key) // Keys come and go.
	}
}
