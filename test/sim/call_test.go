package sim

import (
	"context"
	"time"

	"rubato/internal/errs"
)

// call is one thing that an actor asks of the database. It can be said more than once, as a network can say it.
type call struct {
	name   string
	run    func(ctx context.Context, s *stores) error
	judge  func(c *changes) // whether it did what it may, seen from the mirror before it
	answer func()           // the actor takes in the answer
	legal  []errs.Code      // refusals that are no fault
	err    error
}

// callTime is what a call takes, so that no two things happen at once.
const callTime = 1100 * time.Microsecond

// callLimit bounds a call, with room for a machine that does much else: nothing that is right waits for long.
const callLimit = 2 * time.Minute

func (c *call) exec(ctx context.Context, s *stores) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c.err = c.run(ctx, s)
}

// do makes a call and lets its actor take in the answer.
func (w *world) do(c *call) {
	w.t.Helper()
	w.send(c)
	w.hear(c)
}

// send makes a call whose answer nobody hears yet, and judges what it did.
func (w *world) send(c *call) {
	w.t.Helper()
	w.elapsed += callTime
	c.exec(w.ctx, w.free)
	found, err := w.drain()
	w.ensure(err == nil, "reading the log of changes: %v", err)
	w.settle(c, found[freeName])
}

// hear lets the actor take in the answer of a call.
func (w *world) hear(c *call) {
	if c.err == nil && c.answer != nil {
		c.answer()
	}
}

// settle judges one call and moves the mirror on.
func (w *world) settle(c *call, did *changes) {
	w.t.Helper()
	w.note("%s%s", c.name, outcome(c.err))
	if c.err != nil {
		w.ensure(c.refused(), "%s failed: %v", c.name, c.err)
		w.nothing(c.name, did)
		return
	}
	w.lawful(did)
	c.judge(did)
	w.mirror.apply(did)
	w.consistent()
}

func outcome(err error) string {
	if err == nil {
		return ""
	}
	return " -> " + err.Error()
}

func (c *call) refused() bool {
	for _, code := range c.legal {
		if errs.CodeOf(c.err) == code {
			return true
		}
	}
	return false
}

// remember keeps a call for the echo to say again.
func (w *world) remember(c *call) {
	again := *c
	again.answer = nil
	w.sent = append(w.sent, &again)
	if len(w.sent) > 12 {
		w.sent = w.sent[1:]
	}
}
