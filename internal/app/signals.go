package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WithSignals returns a context that ends with the first interrupt or termination signal. Before it ends, signals mean again what they
// mean by default: a second one, sent by whoever saw the first take effect, ends the process at once. Postgres, when it is ours, stops by
// itself then.
func WithSignals(parent context.Context) (context.Context, context.CancelFunc) {
	signaled, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	ctx, end := context.WithCancelCause(context.WithoutCancel(parent))
	context.AfterFunc(signaled, func() {
		stop()
		end(context.Cause(signaled))
	})
	return ctx, stop
}
