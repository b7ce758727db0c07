package pg_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
)

// TestListenerReceivesWakeupsAfterReconnect follows the messages of a registration, past garbage
// and a lost connection.
func TestListenerReceivesWakeupsAfterReconnect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	heard, canceled, hosts, ordered := make(chan time.Time, 100), make(chan [16]byte, 100), make(chan struct{}, 100), make(chan [16]byte, 100)
	chains := make(chan struct{}, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pg.NewListener(b.URL, slog.New(slog.DiscardHandler)).Run(ctx, notificationChannels{heard, canceled, hosts, ordered, chains})
	}()
	require.Zero(t, <-heard, "listening begins with a wake-up for what was missed")
	require.Zero(t, <-canceled, "and with a look at what is to be canceled")
	require.Zero(t, <-ordered, "and with one at the orders")

	start := time.Now().UTC().Truncate(time.Second).Add(50 * time.Second)
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = storetest.Noon().AddDate(0, 0, 2) })
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = start })
	require.Equal(t, start, (<-heard).UTC(), "what comes due in two days is found by polling before it does")
	b.Exec(t, "SELECT pg_notify('rubato_due', 'soon')")
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = start.Add(-10 * time.Second) })
	require.Equal(t, e.State.Due.At, (<-heard).UTC(), "what cannot be read is passed over")
	b.Exec(t, "SELECT pg_notify('rubato_cancel', 'everybody')")
	b.Exec(t, "SELECT pg_notify('rubato_cancel', $1)", "09000000-0000-0000-0000-000000000000")
	require.Equal(t, [16]byte{9}, <-canceled)
	<-hosts // After the connect, the state of hosts is unknown too.
	b.Exec(t, "SELECT pg_notify('rubato_hosts', '')")
	<-hosts
	b.Exec(t, "SELECT pg_notify('rubato_worker', $1)", "08000000-0000-0000-0000-000000000000")
	require.Equal(t, [16]byte{8}, <-ordered)
	<-chains // After the connect.
	b.Exec(t, "INSERT INTO chain_starts (run_id, outcome, chain, tenant_id, endpoint_id, scheduled_for) SELECT gen_random_uuid(), 'failed', 'c', id, gen_random_uuid(), now() FROM tenants LIMIT 1")
	<-chains

	b.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")
	require.Zero(t, <-heard, "after a cut it listens again, and says that something may have been missed")
	require.Zero(t, <-canceled)
	stop()
	<-ended
}

// notificationChannels passes the notifications of a listener to channels.
type notificationChannels struct {
	due      chan time.Time
	canceled chan [16]byte
	hosts    chan struct{}
	ordered  chan [16]byte
	chains   chan struct{}
}

func (e notificationChannels) Wake(due time.Time)              { e.due <- due }
func (e notificationChannels) CancelRequested(worker [16]byte) { e.canceled <- worker }
func (e notificationChannels) HostsChanged()                   { e.hosts <- struct{}{} }
func (e notificationChannels) OrdersChanged(worker [16]byte)   { e.ordered <- worker }
func (e notificationChannels) ChainsWoken()                    { e.chains <- struct{}{} }
