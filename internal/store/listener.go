package store

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	channelDue    = "rubato_due"
	relistenAfter = time.Second
)

// Listener hears when something comes due. It is a help against waiting, nothing more: whoever misses a message finds the same by
// polling.
type Listener struct {
	url    string
	logger *slog.Logger
}

// NewListener returns a listener on a database that is reached directly: behind a transaction pooler no message arrives.
func NewListener(url string, logger *slog.Logger) *Listener {
	return &Listener{url: url, logger: logger.With("component", "listener")}
}

// Run calls wake for every message, with the instant that something came due at, until ctx ends. It reconnects by itself, and calls
// wake with the zero instant when it does, for what it may have missed.
func (l *Listener) Run(ctx context.Context, wake func(due time.Time)) {
	for ctx.Err() == nil {
		err := l.listen(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		l.logger.Warn("listening for due endpoints was cut; polling goes on, listening again in a second", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(relistenAfter):
		}
	}
}

func (l *Listener) listen(ctx context.Context, wake func(due time.Time)) error {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return fmt.Errorf("connecting: %w", redactURL(err))
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), relistenAfter)
		defer cancel()
		_ = conn.Close(closing) // The connection is given up either way.
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channelDue); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	wake(time.Time{})
	for {
		message, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("waiting for a message: %w", err)
		}
		due, err := strconv.ParseInt(message.Payload, 10, 64)
		if err != nil {
			l.logger.Warn("a message on the channel of due endpoints cannot be read", "error", err)
			continue
		}
		wake(time.UnixMilli(due))
	}
}
