package egress

import (
	"context"
	"io"
	"sync"
	"time"
)

// answerTimeouts holds the timeouts of an answer's header and of pauses in its body. A limit that
// is not shorter than the total timeout is not applied, because the total timeout covers it.
type answerTimeouts struct {
	limits  Limits
	timeout time.Duration

	mu    sync.Mutex
	timer *time.Timer
	cause error
}

// begun starts the timeout of the header at the first byte of an answer.
func (p *answerTimeouts) begun(cancel context.CancelFunc) {
	if p.timeout > p.limits.Header {
		p.start(p.limits.Header, errSlowHeader, cancel)
	}
}

// follow returns body with an idle timeout for each read.
func (p *answerTimeouts) follow(body io.ReadCloser, cancel context.CancelFunc) io.ReadCloser {
	if p.timeout <= p.limits.Idle {
		return body
	}
	return &watched{
		ReadCloser: body,
		timeouts:   p,
		cancel:     cancel,
	}
}

func (p *answerTimeouts) start(limit time.Duration, cause error, cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(limit, func() {
		p.mu.Lock()
		p.cause = cause
		p.mu.Unlock()
		cancel()
	})
}

// stop cancels the running timer.
func (p *answerTimeouts) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// lost returns the timeout that ended the exchange, or nil.
func (p *answerTimeouts) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// watched is a body with an idle timeout.
type watched struct {
	io.ReadCloser

	timeouts *answerTimeouts
	cancel   context.CancelFunc
}

// Read reads from the body within the idle timeout.
func (w *watched) Read(b []byte) (int, error) {
	w.timeouts.start(w.timeouts.limits.Idle, errIdleBody, w.cancel)
	n, err := w.ReadCloser.Read(b)
	w.timeouts.stop()
	return n, err
}
