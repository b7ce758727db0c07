package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/store/storetest"
)

func TestEndpointsWithoutAWorkerRaiseANoticeUntilOneComes(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })
	b.Register(t, nil)
	store := b.PutRule(t, "tags", func(s *notices.Spec) { s.Event = notices.Unroutable })
	watch := func() []string {
		_, err := b.Sweeps.Unserved(t.Context(), 30*time.Second)
		require.NoError(t, err)
		require.NoError(t, store.Watch(t.Context()))
		return b.NoticeKinds(t)
	}
	beat := func(id byte, tags ...string) {
		_, err := b.Executions.Beat(t.Context(), dispatch.Presence{
			ID:        [16]byte{id},
			Name:      "host",
			Version:   "v",
			State:     dispatch.Active,
			Slots:     1,
			Placement: dispatch.Placement{Tags: tags},
		})
		require.NoError(t, err)
	}
	beat(1)
	require.Empty(t, watch())

	b.At(now.Add(30 * time.Second))
	beat(1)
	require.Equal(t, []string{"opened"}, watch())
	require.Equal(t, []string{"opened"}, watch(), "one notice for each time without a worker")

	beat(2, "region=eu")
	require.Equal(t, []string{"opened", "recovered"}, watch())
}
