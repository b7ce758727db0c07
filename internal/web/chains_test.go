package web

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// TestARunOfAChainShowsTheNumbersOfItsElements renders a run with counted elements, after three
// failed advances.
func TestARunOfAChainShowsTheNumbersOfItsElements(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	run := client.ChainRun{ID: "chr_1", Chain: "order", Status: "running", CreatedAt: now.Add(-time.Minute), AdvanceFailures: new(int32(3))}
	steps := []client.ChainRunStep{
		{Name: "ship", Status: "active", Elements: &map[string]int32{"waiting": 700, "failed": 2}},
		{Name: "ship", Status: "failed", Element: new(int32(7))},
	}
	var page strings.Builder
	require.NoError(t, chainRunPart(chainRunView{run: run, bars: drawBars(run, steps, now), now: now}).Render(t.Context(), &page))
	require.Contains(t, page.String(), "2 failed, 700 waiting")
	require.Contains(t, page.String(), "ship.7")
	require.Contains(t, page.String(), "could not be advanced 3 times")
}
