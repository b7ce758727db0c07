package sim

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/errs"
	"rubato/internal/store/pg"
)

// call is a call of an actor to the database. It can be repeated, because a network can deliver
// duplicates.
type call struct {
	name   string
	run    func(ctx context.Context, s *stores) error
	judge  func(c *changes) // checks the effect against the mirror before the call
	answer func()           // passes the answer to the actor
	legal  []errs.Code      // refusals that are allowed
	err    error
}

// callTime is the duration of a call, so that no two events are simultaneous.
const callTime = 1100 * time.Microsecond

// callLimit is the timeout of a call. It is generous, because the machine may be busy and no
// correct call blocks for long.
const callLimit = 2 * time.Minute

func (c *call) exec(ctx context.Context, s *stores) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c.err = c.run(ctx, s)
}

// do makes a call and passes the answer to its actor.
func (w *world) do(c *call) {
	w.t.Helper()
	w.send(c)
	w.hear(c)
}

// send makes a call without passing the answer on, and judges its effect.
func (w *world) send(c *call) {
	w.t.Helper()
	w.elapsed += callTime
	c.exec(w.ctx, w.free)
	found, err := w.drain()
	w.ensure(err == nil, "reading the log of changes: %v", err)
	w.settle(c, found[freeName])
}

// hear passes the answer of a call to its actor.
func (w *world) hear(c *call) {
	if c.err == nil && c.answer != nil {
		c.answer()
	}
}

// settle judges one call and updates the mirror.
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

// refused reports whether the call was refused for a legal reason. A constraint or a trigger of the
// database is none, because the product must not try such a change.
func (c *call) refused() bool {
	if fault, found := errors.AsType[*pgconn.PgError](c.err); found && pg.HasClass(fault, "22", "23") {
		return false
	}
	for _, code := range c.legal {
		if errs.CodeOf(c.err) == code {
			return true
		}
	}
	return false
}

// remember keeps a call, so that echo can repeat it.
func (w *world) remember(c *call) {
	again := *c
	again.answer = nil
	w.sent = append(w.sent, &again)
	if len(w.sent) > 12 {
		w.sent = w.sent[1:]
	}
}
