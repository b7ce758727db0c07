package web

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// TestARunShowsTheLossesBeforeIt looks at the page of a run and at the list of runs.
func TestARunShowsTheLossesBeforeIt(t *testing.T) {
	t.Parallel()
	for _, infra := range []int32{0, 2} {
		r := client.Run{ID: "run_1", EndpointID: "ep_1", Status: client.RunStatusSucceeded, Attempt: 1, InfraAttempt: infra, ScheduledFor: time.Now()}
		var page, list strings.Builder
		require.NoError(t, runTable(runRows{items: []client.Run{r}, now: time.Now()}).Render(t.Context(), &list))
		require.NoError(t, runPage(story{run: r, now: time.Now()}).Render(t.Context(), &page))
		require.Equal(t, infra > 0, strings.Contains(list.String(), "infra attempt 2"))
		require.Equal(t, infra > 0, strings.Contains(page.String(), "Infra attempt"))
	}
}
