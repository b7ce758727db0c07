package egress

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	frameHeader = 9 // bytes

	frameData   = 0x0
	frameGoAway = 0x7
	frameLast   = 0x9      // that HTTP/2 itself defines
	budgetFirst = 8 << 20  // what a connection may cost before anything was asked of it
	budgetMax   = 64 << 20 // what it can save up
	perStream   = 256 << 10
	perSecond   = 1 << 20
	strangeCost = 64 << 10 // of a frame that HTTP/2 does not define: the transport skips it, and writes a line of log
	controlCost = 4 << 10  // of a frame that carries no body: all of its work is ours, and none of its bytes are the target's cost
	dataCost    = 64       // of a frame of a body, besides its bytes
	readCredit  = 8        // for each byte of a body that its reader took
)

// frames watches what a target sends over HTTP/2 and ends the connection where that is not in proportion to what was asked of it.
// Headers and bodies have caps of their own; settings, pings, resets, empty frames and bodies of requests that have ended have none.
type frames struct {
	mu     sync.Mutex
	header [frameHeader]byte
	have   int // bytes of header
	rest   int // bytes of the frame that are still to come
	budget int64
	filled time.Time
	away   bool // the target lets the connection end
}

func newFrames() *frames { return &frames{budget: budgetFirst, filled: time.Now()} }

// opened grants what the answer to one more request needs.
func (f *frames) opened() { f.grant(perStream) }

// took grants what follows n bytes of a body that a reader wanted.
func (f *frames) took(n int) { f.grant(int64(n) * readCredit) }

func (f *frames) grant(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.budget = min(f.budget+n, budgetMax)
}

// leaving reports whether the target announced the end of the connection.
func (f *frames) leaving() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// note takes in what was read. It reports false where the target has sent too much.
func (f *frames) note(p []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(p) > 0 {
		if f.rest > 0 {
			n := min(f.rest, len(p))
			f.rest -= n
			p = p[n:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have == frameHeader {
			f.have = 0
			f.charge()
		}
	}
	if f.budget < 0 {
		f.refill()
	}
	return f.budget >= 0
}

// charge takes the cost of the frame that begins.
func (f *frames) charge() {
	f.rest = int(binary.BigEndian.Uint32(f.header[:4]) >> 8)
	switch kind := f.header[3]; {
	case kind == frameData && f.rest > 0:
		f.budget -= int64(dataCost + f.rest)
	case kind == frameGoAway:
		f.away = true
		f.budget -= controlCost
	case kind > frameLast:
		f.budget -= strangeCost
	default:
		f.budget -= controlCost
	}
}

// refill grants what time brings. It is asked for only when nothing is left.
func (f *frames) refill() {
	now := time.Now()
	f.budget += int64(now.Sub(f.filled).Seconds() * perSecond)
	f.filled = now
}
