package httpapi

import (
	"errors"
	"fmt"
	"sync"
)

// maxOutbox bounds, in bytes, the results that a client has not read yet. Many clients send all of
// a body before they read; the results of 100,000 good lines fit.
const maxOutbox = 32 << 20

var errOutboxFull = errors.New("the client does not read the results")

// outbox sends lines in the background, so that a client that still sends need not read yet.
type outbox struct {
	stream *stream
	done   chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	closed  bool
	err     error // why nothing can be sent any more
}

func newOutbox(s *stream) *outbox {
	o := &outbox{stream: s, done: make(chan struct{})}
	o.changed = sync.NewCond(&o.mu)
	go o.run()
	return o
}

// put takes lines in. The error says that they will not arrive.
func (o *outbox) put(lines []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting)+len(lines) > maxOutbox && o.err == nil {
		o.err = errOutboxFull
	}
	if o.err == nil {
		o.waiting = append(o.waiting, lines...)
	}
	o.changed.Signal()
	return o.err
}

// close flushes the buffer and returns the first write error.
func (o *outbox) close() error {
	o.mu.Lock()
	o.closed = true
	o.changed.Signal()
	o.mu.Unlock()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outbox) run() {
	defer close(o.done)
	defer func() {
		if fault := recover(); fault != nil {
			o.fail(fmt.Errorf("sending the results: a fault inside Rubato: %v", fault))
		}
	}()
	for {
		lines := o.take()
		if lines == nil {
			return
		}
		for len(lines) > 0 { // In pieces that each may take as long as a client may.
			n := min(len(lines), 64<<10)
			if err := o.stream.write(lines[:n]); err != nil {
				o.fail(err)
				return
			}
			lines = lines[n:]
		}
	}
}

// take waits for lines; nil means that there will be none.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) == 0 && !o.closed && o.err == nil {
		o.changed.Wait()
	}
	if o.err != nil || len(o.waiting) == 0 {
		return nil
	}
	lines := o.waiting
	o.waiting = nil
	return lines
}

func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}
