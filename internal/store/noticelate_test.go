package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
)

// TestARunThatWaitsForTheOneBeforeIsNotLate asks for a run while another one is under way: it follows that one by intent, however long it takes.
func TestARunThatWaitsForTheOneBeforeIsNotLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	keeper := b.noticed(t, "late", func(s *notices.Spec) { s.Event, s.Failures, s.Late = notices.Late, 0, 30*time.Second })
	e := b.register(t, nil)
	c, s := b.startOne(t, worker{1})
	b.at(now.Add(time.Second))
	_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.at(now.Add(40 * time.Second))
	run := succeed(worker{1}, c, s)
	run.FinishedAt = now.Add(40 * time.Second)
	b.finish(t, worker{1}, 0, run)
	require.Equal(t, now.Add(time.Second), b.get(t, e.ID).State.Due.At.UTC())

	b.at(now.Add(41 * time.Second))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Empty(t, b.told(t), "it had to wait, and nobody else is slow")
	b.runOne(t, worker{1})
	require.Empty(t, b.told(t), "nor is it late once it has run")

	b.at(b.get(t, e.ID).State.Due.At)
	_, err = b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.at(b.get(t, e.ID).State.Due.At.Add(31 * time.Second))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.told(t), "one that nothing keeps waiting is")
}
