package egress

import (
	"context"
	"io"
	"sync"
	"time"
)

// patience ends an exchange whose answer began and then does not come on. Where the timeout of the whole is shorter than a limit, it
// ends the exchange first, and nothing is watched.
type patience struct {
	limits  Limits
	timeout time.Duration

	mu    sync.Mutex
	timer *time.Timer
	cause error
}

// begun says that the first byte of an answer came. Its header must be complete within its limit.
func (p *patience) begun(cancel context.CancelFunc) {
	if p.timeout > p.limits.Header {
		p.start(p.limits.Header, errSlowHeader, cancel)
	}
}

// follow returns body, given up when no byte of it comes for too long.
func (p *patience) follow(body io.ReadCloser, cancel context.CancelFunc) io.ReadCloser {
	if p.timeout <= p.limits.Idle {
		return body
	}
	return &watched{ReadCloser: body, patience: p, cancel: cancel}
}

func (p *patience) start(limit time.Duration, cause error, cancel context.CancelFunc) {
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

// stop ends the watch.
func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// lost returns why the exchange was given up, or nil.
func (p *patience) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// watched is a body that is watched while it is read.
type watched struct {
	io.ReadCloser

	patience *patience
	cancel   context.CancelFunc
}

// Read reads what comes in time.
func (w *watched) Read(b []byte) (int, error) {
	w.patience.start(w.patience.limits.Idle, errIdleBody, w.cancel)
	n, err := w.ReadCloser.Read(b)
	w.patience.stop()
	return n, err
}
