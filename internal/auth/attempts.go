package auth

import (
	"net/netip"
	"sync"
	"time"
)

// maxAddresses bounds the memory of Attempts. The global limit alone keeps fewer addresses waiting,
// unless many attempts are under way at once.
const maxAddresses = 8192

// attemptLimit is how many failures are free at once, after which time each further one is, and the
// longest time until all are free again. That time is longer than burst x interval allows only if
// many attempts were under way at once and none saw the others fail.
type attemptLimit struct {
	burst    int
	interval time.Duration
	longest  time.Duration
}

var (
	// perAddress allows for a mixed-up key, and for a program with a revoked key that is restarted
	// a few times.
	perAddress = attemptLimit{
		burst:    10,
		interval: 6 * time.Second,
		longest:  5 * time.Minute,
	}

	// perProcess bounds the look-ups that wrong keys cost the database. An attacker with many
	// addresses delays the first look-up of a right key too, by a few seconds at most.
	perProcess = attemptLimit{
		burst:    200,
		interval: 50 * time.Millisecond,
		longest:  12 * time.Second,
	}
)

// Attempts throttles guesses of API keys, per client address and for all addresses together. It
// counts failed attempts alone, so a right key costs nothing. IPv6 clients are identified by their
// /64, because a client chooses the rest. Each process counts for itself. It is safe for concurrent
// use.
type Attempts struct {
	mu      sync.Mutex
	all     bucket
	clients map[netip.Prefix]bucket
}

// bucket is a leaky bucket (GCRA) by one instant: the end of the time until all attempts are free
// again.
type bucket struct{ empty time.Time }

// NewAttempts returns a throttle that has seen no failure.
func NewAttempts() *Attempts { return &Attempts{clients: map[netip.Prefix]bucket{}} }

// Allow returns how long a client address must wait before its next attempt; zero: it may try now.
// It takes nothing: ask before a key is looked up, and report the outcome by Failed if the key was
// wrong. Text that is no address stands for one client.
func (a *Attempts) Allow(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(
		a.clients[client(address)].wait(now, perAddress),
		a.all.wait(now, perProcess),
	)
}

// Failed counts a wrong key of a client address.
func (a *Attempts) Failed(address string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all.pour(now, perProcess)
	key := client(address)
	if _, found := a.clients[key]; !found && len(a.clients) >= maxAddresses {
		a.forget(now)
	}
	b := a.clients[key]
	b.pour(now, perAddress)
	a.clients[key] = b
}

// forget makes room for another address: empty buckets go, and all of them if none is empty. The
// limit of the process holds meanwhile.
func (a *Attempts) forget(now time.Time) {
	for key, b := range a.clients {
		if !now.Before(b.empty) {
			delete(a.clients, key)
		}
	}
	if len(a.clients) >= maxAddresses {
		clear(a.clients)
	}
}

// wait returns how long it takes until one more attempt is free.
func (b bucket) wait(now time.Time, l attemptLimit) time.Duration {
	full := b.empty.Add(-time.Duration(l.burst-1) * l.interval) // The zero bucket is of long ago, so its distance is no duration.
	if !now.Before(full) {
		return 0
	}
	return full.Sub(now)
}

func (b *bucket) pour(now time.Time, l attemptLimit) {
	if b.empty.Before(now) {
		b.empty = now
	}
	b.empty = b.empty.Add(l.interval)
	if latest := now.Add(l.longest); b.empty.After(latest) {
		b.empty = latest
	}
}

// client returns the part of an address that identifies a client.
func client(address string) netip.Prefix {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // The length fits the family.
	return prefix
}
