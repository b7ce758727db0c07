package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WithSignals returns a context that ends with the first interrupt or termination signal. The
// default handling of signals is restored before it ends, so that a second signal ends the process
// at once. A private Postgres then stops by itself.
func WithSignals(parent context.Context) (context.Context, context.CancelFunc) {
	signaled, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	ctx, end := context.WithCancelCause(context.WithoutCancel(parent))
	context.AfterFunc(signaled, func() {
		stop()
		end(context.Cause(signaled))
	})
	return ctx, stop
}
