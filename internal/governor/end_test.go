package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

// TestAScheduleEndsAtItsEnd compares decisions with and without an end: a due time before the end
// stays as it is, and one at or after it is gone.
func TestAScheduleEndsAtItsEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		endless := governor.Decide(in)
		in.EndAt = T.Add(time.Duration(rapid.Int64Range(-int64(hour), int64(2*hour)).Draw(t, "end")))
		got := governor.Decide(in)
		if endless.Slot.Before(in.EndAt) {
			require.Equal(t, endless, got)
			return
		}
		last := got.Steps[len(got.Steps)-1]
		require.Equal(t, []any{governor.Indefinite, governor.Indefinite, governor.SourceEnded}, []any{got.At, got.Slot, got.Source})
		require.Equal(t, governor.RuleEnded, last.Rule)
	})
}
