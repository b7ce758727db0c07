package sim

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/replay"
)

// decideAgain makes every decision of the case again, and requires that they are the recorded ones.
func (w *world) decideAgain(t *rapid.T) {
	report, err := replay.Run(w.ctx, w.url, replay.Options{From: epoch})
	require.NoError(t, err)
	require.Nil(t, report.Difference)
	require.Empty(t, report.Late)
	w.reached["decision of a run replayed"] += report.Runs
	w.reached["decision of a change replayed"] += report.Changes
}
