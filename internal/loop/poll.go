package loop

import (
	"context"
	"time"
)

// Poll calls step at once and then at every interval until ctx ends. failed gets the first of
// consecutive errors, so that an outage does not flood the log. It gets none of a step that ctx
// ended.
func Poll(ctx context.Context, interval time.Duration, step func(context.Context) error, failed func(error)) {
	PollOrWake(ctx, interval, nil, step, failed)
}

// PollOrWake is Poll, but a message on wake calls step at once.
func PollOrWake(ctx context.Context, interval time.Duration, wake <-chan struct{}, step func(context.Context) error, failed func(error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for failing := false; ; {
		err := step(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			failed(err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-wake:
		}
	}
}
