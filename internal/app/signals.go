package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WithSignals returns a context that ends with the first interrupt or termination signal. From then on signals mean what they
// mean by default: a second one ends the process at once. Postgres, when it is ours, stops by itself then.
func WithSignals(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
