package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
	"rubato/internal/sourcetext"
)

// TestALatePlanIsNotBlamedOnARun: a due time that passed during a pause is overdue because of the
// pause, and not because a run took long.
func TestALatePlanIsNotBlamedOnARun(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	resumed := governor.Decide(governor.Input{
		Baseline: governor.Baseline{Interval: time.Second}, Anchor: now.Add(-time.Minute), Now: now, Cause: governor.CauseReplan,
	})
	last := resumed.Steps[len(resumed.Steps)-1]
	require.Equal(t, "overdue: at once", last.Why)
	require.Equal(t, "its time had passed", sourcetext.Source(string(last.Rule)))
}
