package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/store/storetest"
)

// TestARunThatWaitsForTheOneBeforeIsNotLate asks for a run while another one is under way: it
// follows that one by intent, however long it takes.
func TestARunThatWaitsForTheOneBeforeIsNotLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "late", func(s *notices.Spec) { s.Event, s.Failures, s.Late = notices.Late, 0, 30*time.Second })
	e := b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	b.At(now.Add(time.Second))
	_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.At(now.Add(40 * time.Second))
	run := storetest.Succeed(storetest.Worker{1}, c, s)
	run.FinishedAt = now.Add(40 * time.Second)
	b.Finish(t, storetest.Worker{1}, 0, run)
	require.Equal(t, now.Add(time.Second), b.Get(t, e.ID).State.Due.At.UTC())

	b.At(now.Add(41 * time.Second))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Empty(t, b.NoticeKinds(t), "it had to wait, and nobody else is slow")
	b.RunOne(t, storetest.Worker{1})
	require.Empty(t, b.NoticeKinds(t), "nor is it late once it has run")

	b.At(b.Get(t, e.ID).State.Due.At)
	_, err = b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.At(b.Get(t, e.ID).State.Due.At.Add(31 * time.Second))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t), "one that nothing keeps waiting is")
}
