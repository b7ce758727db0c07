package pg_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
)

// listener is a connection that listens for the wake-ups of workers.
type listener struct{ conn *pgx.Conn }

func (b *bundle) listen(t *testing.T) listener {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	_, err = conn.Exec(t.Context(), "LISTEN rubato_due")
	require.NoError(t, err)
	return listener{conn}
}

// next returns the instant of the next wake-up.
func (l listener) next(t *testing.T) time.Time {
	t.Helper()
	told, err := l.conn.WaitForNotification(waittest.Context(t))
	require.NoError(t, err)
	ms, err := strconv.ParseInt(told.Payload, 10, 64)
	require.NoError(t, err)
	return time.UnixMilli(ms).UTC()
}

// mark makes a message of our own, so that nothing before it is missed.
func (b *bundle) mark(t *testing.T) time.Time {
	t.Helper()
	at := time.UnixMilli(42).UTC()
	b.Exec(t, "SELECT pg_notify('rubato_due', '42')")
	return at
}

// TestWorkersAreNotifiedOfCloseDueTimes requires a wake-up for a due time within the horizon, even
// if the client that changed it has disconnected, and none for later ones.
func TestWorkersAreNotifiedOfCloseDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	heard, now := b.listen(t), storetest.Noon()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	b.DB.Wake(gone, time.Time{}, now)
	b.DB.Wake(gone, now.Add(time.Minute+time.Millisecond), now)
	b.DB.Wake(gone, now.Add(time.Minute), now)
	require.Equal(t, now.Add(time.Minute), heard.next(t), "at the edge of the longest horizon")
	b.DB.Wake(gone, now.Add(-time.Hour), now)
	require.Equal(t, now.Add(-time.Hour), heard.next(t), "overdue is soon enough")
	require.Equal(t, b.mark(t), heard.next(t), "and of nothing else")
}

// While a message waits for a connection, a hundred others become one, which names the earliest.
func TestWakeupsAreCoalesced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	heard, now := b.listen(t), storetest.Noon()
	release, err := pg.OccupyHot(t.Context(), b.DB)
	require.NoError(t, err)
	for i := range 100 {
		b.DB.Wake(t.Context(), now.Add(time.Duration(100-i)*time.Millisecond), now)
	}
	release()
	earliest, messages := now.Add(time.Millisecond), 0
	for told := heard.next(t); told != earliest; told = heard.next(t) {
		messages++
		require.True(t, told.After(earliest))
	}
	require.LessOrEqual(t, messages, 1, "the one that was under way")
	require.Equal(t, b.mark(t), heard.next(t), "the earliest stands for all")
}

// TestClosedDatabaseSendsNoWakeup sends a wake-up after the pool is closed. It returns at once, and
// no notification is sent.
func TestClosedDatabaseSendsNoWakeup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	heard, now := b.listen(t), storetest.Noon()
	b.DB.Wake(t.Context(), now, now)
	require.Equal(t, now, heard.next(t))
	b.DB.Close()
	b.DB.Wake(t.Context(), now.Add(time.Second), now)
	require.Equal(t, b.mark(t), heard.next(t))
}
