package pg

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
	channelHosts  = "rubato_hosts"
	channelWorker = "rubato_worker"
	channelChains = "rubato_chains"
	relistenAfter = time.Second
)

// Listener receives notifications (LISTEN/NOTIFY) of due endpoints, cancel requests, hosts, orders
// to workers and chains. They only reduce latency: polling finds everything that a lost
// notification was about.
type Listener struct {
	url    string
	logger *slog.Logger
}

// NewListener returns a listener. url must reach the database directly, because a transaction
// pooler does not forward notifications.
func NewListener(url string, logger *slog.Logger) *Listener {
	return &Listener{url: url, logger: logger.With("component", "listener")}
}

// NotificationHandler handles notifications. Its methods are called on the goroutine of
// [Listener.Run] and must not block.
type NotificationHandler interface {
	// Wake reports that an endpoint is due at a time. The zero time means that notifications may
	// have been lost.
	Wake(due time.Time)
	// CancelRequested reports a cancel request for a run of a worker. The zero worker means any
	// worker.
	CancelRequested(worker [16]byte)
	// HostsChanged reports that breakers of hosts have changed.
	HostsChanged()
	// OrdersChanged reports that a worker should read its orders. The zero worker means any worker.
	OrdersChanged(worker [16]byte)
	// ChainsWoken reports that runs of chains can be advanced, or that chains are to be started.
	ChainsWoken()
}

// Run passes notifications to a NotificationHandler until ctx ends. It reconnects after an error.
// After each connect it reports the zero time and the zero worker, because notifications may have
// been lost in between.
func (l *Listener) Run(ctx context.Context, to NotificationHandler) {
	for ctx.Err() == nil {
		err := l.listen(ctx, to)
		if ctx.Err() != nil {
			return
		}
		l.logger.Warn("listening for notifications failed: polling continues, reconnect in 1 s", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(relistenAfter):
		}
	}
}

func (l *Listener) listen(ctx context.Context, to NotificationHandler) error {
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
		_ = conn.Close(closing) // The connection is discarded anyway.
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channelDue+"; LISTEN "+channelCancel+"; LISTEN "+channelHosts+"; LISTEN "+channelWorker+"; LISTEN "+channelChains); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	to.Wake(time.Time{})
	to.CancelRequested([16]byte{})
	to.HostsChanged()
	to.OrdersChanged([16]byte{})
	to.ChainsWoken()
	for {
		message, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("waiting for a notification: %w", err)
		}
		if err := notify(message, to); err != nil {
			l.logger.Warn("notification is malformed", "channel", message.Channel, "error", err)
		}
	}
}

// notify decodes a notification and calls the NotificationHandler.
func notify(message *pgconn.Notification, to NotificationHandler) error {
	switch message.Channel {
	case channelCancel:
		return notifyOfWorker(message, to.CancelRequested)
	case channelWorker:
		return notifyOfWorker(message, to.OrdersChanged)
	case channelHosts:
		to.HostsChanged()
		return nil
	case channelChains:
		to.ChainsWoken()
		return nil
	}
	due, err := strconv.ParseInt(message.Payload, 10, 64)
	if err == nil {
		to.Wake(time.UnixMilli(due))
	}
	return err
}

// notifyOfWorker decodes a notification about one worker and passes it on.
func notifyOfWorker(message *pgconn.Notification, to func(worker [16]byte)) error {
	worker, err := uuid.Parse(message.Payload)
	if err == nil {
		to(worker)
	}
	return err
}
