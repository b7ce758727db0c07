package store

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	channelDue    = "rubato_due"
	channelCancel = "rubato_cancel"
	relistenAfter = time.Second
)

// Listener hears when something comes due, and when a run is to be canceled. It is a help against waiting, nothing more: whoever
// misses a message finds the same by polling.
type Listener struct {
	url    string
	logger *slog.Logger
}

// NewListener returns a listener on a database that is reached directly: behind a transaction pooler no message arrives.
func NewListener(url string, logger *slog.Logger) *Listener {
	return &Listener{url: url, logger: logger.With("component", "listener")}
}

// Hearer is who wants to know. Its methods must not block.
type Hearer interface {
	// Wake says that something came due at an instant.
	Wake(due time.Time)
	// CancelRequested says that a run of a worker is to be canceled.
	CancelRequested(worker [16]byte)
}

// Run tells of every message until ctx ends. It reconnects by itself, and then tells the zero instant and the zero worker, for what it
// may have missed.
func (l *Listener) Run(ctx context.Context, to Hearer) {
	for ctx.Err() == nil {
		err := l.listen(ctx, to)
		if ctx.Err() != nil {
			return
		}
		l.logger.Warn("listening for messages was cut; polling goes on, listening again in a second", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(relistenAfter):
		}
	}
}

func (l *Listener) listen(ctx context.Context, to Hearer) error {
	cc, err := pgx.ParseConfig(l.url)
	if err != nil {
		return fmt.Errorf("reading the database URL: %w", redactURL(err))
	}
	boundConnect(cc)
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return fmt.Errorf("connecting: %w", redactURL(err))
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), relistenAfter)
		defer cancel()
		_ = conn.Close(closing) // The connection is given up either way.
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channelDue+"; LISTEN "+channelCancel); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	to.Wake(time.Time{})
	to.CancelRequested([16]byte{})
	for {
		message, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("waiting for a message: %w", err)
		}
		if err := pass(message, to); err != nil {
			l.logger.Warn("a message cannot be read", "channel", message.Channel, "error", err)
		}
	}
}

// pass tells what a message says.
func pass(message *pgconn.Notification, to Hearer) error {
	if message.Channel == channelCancel {
		worker, err := uuid.Parse(message.Payload)
		if err == nil {
			to.CancelRequested(worker)
		}
		return err
	}
	due, err := strconv.ParseInt(message.Payload, 10, 64)
	if err == nil {
		to.Wake(time.UnixMilli(due))
	}
	return err
}
