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
	frameLast   = 0x9      // highest frame type defined by HTTP/2 itself
	budgetFirst = 8 << 20  // initial budget of a connection
	budgetMax   = 64 << 20 // maximum budget
	perStream   = 256 << 10
	perSecond   = 1 << 20
	// Cost of an unknown frame type, because the transport skips it but writes a log line.
	strangeCost = 64 << 10
	// Cost of a frame without a body, because it is cheap for the target but costs us work.
	controlCost = 4 << 10
	dataCost    = 64 // cost of a DATA frame, beside its bytes
	readCredit  = 8  // grant per byte of a body that a reader took
)

// frames limits the cost of incoming HTTP/2 frames by a budget and ends the connection when it is
// spent. Settings, pings, resets, empty frames and bodies of ended requests count here, because the
// caps for headers and bodies do not cover them.
type frames struct {
	mu     sync.Mutex
	header [frameHeader]byte
	have   int // bytes of header so far
	rest   int // remaining bytes of the current frame
	budget int64
	filled time.Time
	away   bool // the target sent GOAWAY
}

func newFrames() *frames { return &frames{budget: budgetFirst, filled: time.Now()} }

// opened grants the budget for the answer to one more request.
func (f *frames) opened() { f.grant(perStream) }

// took grants budget for n bytes that a reader took from a body.
func (f *frames) took(n int) { f.grant(int64(n) * readCredit) }

func (f *frames) grant(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.budget = min(f.budget+n, budgetMax)
}

// leaving reports whether the target has announced the end of the connection (GOAWAY).
func (f *frames) leaving() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// charge charges the bytes p read from the connection. It returns false if the budget is spent.
func (f *frames) charge(p []byte) bool {
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
			f.chargeFrame()
		}
	}
	if f.budget < 0 {
		f.refill()
	}
	return f.budget >= 0
}

// chargeFrame deducts the cost of the frame in header.
func (f *frames) chargeFrame() {
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

// refill grants budget for the elapsed time. It is called only when the budget is negative, because
// each call reads the clock.
func (f *frames) refill() {
	now := time.Now()
	f.budget += int64(now.Sub(f.filled).Seconds() * perSecond)
	f.filled = now
}
