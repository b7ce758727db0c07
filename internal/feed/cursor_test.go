package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/feed"
	"rubato/internal/runs"
)

func TestCursorRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 123_000_000, time.UTC)
	for name, m := range map[string]feed.Cursor{
		"Change": {Position: feed.Position{TxID: 77, Row: -1, At: at}},
		"Run":    {Position: feed.Position{TxID: 1 << 40, Row: 3, Run: [16]byte{1, 15: 2}, At: at}},
		"Starts": {Position: feed.Position{TxID: 77, Row: -1, At: at}, Started: at.Add(456 * time.Microsecond), Run: runs.ID{9, 15: 8}},
	} {
		got, err := feed.ParseCursor(m.String())
		require.NoError(t, err, name)
		require.Equal(t, m, got, name)
		require.LessOrEqual(t, len(m.String()), 100, "the contract lets no longer one back in")
		for _, bad := range []string{m.String() + "A", m.String()[1:], m.String() + "=", " " + m.String()} {
			_, err := feed.ParseCursor(bad)
			require.Equal(t, errs.Malformed, errs.CodeOf(err), "%s: %q", name, bad)
		}
	}
}

func TestCursorHoldsTheSentStarts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	start := func(id byte, ago time.Duration) runs.Run { return runs.Run{ID: runs.ID{id}, StartedAt: at.Add(-ago)} }
	var m feed.Cursor
	require.False(t, m.Includes(start(1, 0)), "no start was sent")
	m = m.WithStart(start(1, time.Minute)).WithStart(start(2, 0)).WithStart(start(3, time.Second))
	require.True(t, m.Includes(start(2, 0)), "the newest itself")
	require.True(t, m.Includes(start(1, time.Minute)))
	require.False(t, m.Includes(start(4, time.Second)), "its transaction may have ended after the newest was sent")
	require.False(t, m.Includes(start(5, 5*time.Second)))
	require.True(t, m.Includes(start(6, 5*time.Second+time.Microsecond)))
	require.False(t, m.Includes(start(7, -time.Second)))
}
