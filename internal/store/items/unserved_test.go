package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// unserved marks the tag sets and returns those without a worker for 30 s.
func (b *bundle) unserved(t *testing.T) []zombie.TagSet {
	t.Helper()
	sets, err := b.Sweeps.Unserved(t.Context(), 30*time.Second)
	require.NoError(t, err)
	return sets
}

// pass lets time pass until after noon, with a heartbeat of every worker.
func (b *bundle) pass(t *testing.T, after time.Duration) {
	t.Helper()
	b.Exec(t, "UPDATE workers SET heartbeat_at = $1", b.At(storetest.Noon().Add(after)))
}

func TestDueTimesWithoutAWorkerAreSkippedAfterHalfAMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu", "net=internal"} })
	plain := b.Register(t, func(s *endpoints.Spec) { s.Name = "plain" })
	require.Empty(t, b.unserved(t), "without a worker it is an outage")

	b.announce(t, storetest.Worker{1}, dispatch.Placement{Tags: []string{"region=eu"}})
	require.Empty(t, b.unserved(t))
	b.pass(t, 30*time.Second-time.Millisecond)
	require.Empty(t, b.unserved(t), "a restart of the only worker skips none")
	b.pass(t, 30*time.Second)
	sets := b.unserved(t)
	require.Len(t, sets, 1)
	require.Equal(t, []string{"net=internal"}, sets[0].Missing)

	skipped, err := b.Sweeps.SkipUnserved(t.Context(), sets, 100)

	require.NoError(t, err)
	require.Equal(t, 1, skipped)
	list := b.Skips(t, e.ID)
	require.Len(t, list, 1)
	require.Equal(t, runs.Unroutable, list[0].Outcome.Reason)
	require.Equal(t, "nothing was sent: no active worker has the required tags net=internal", list[0].Outcome.Error)
	require.Equal(t, storetest.Noon().Add(time.Minute), b.Get(t, e.ID).State.Due.At, "its grid stays")
	require.Zero(t, b.Get(t, e.ID).State.FailureCount)
	require.Empty(t, b.Skips(t, plain.ID))
	again, err := b.Sweeps.SkipUnserved(t.Context(), sets, 100)
	require.NoError(t, err)
	require.Zero(t, again, "nothing is due")

	b.pass(t, 2*time.Minute)
	b.announce(t, storetest.Worker{2}, dispatch.Placement{Tags: []string{"net=internal", "region=eu"}})
	late, err := b.Sweeps.SkipUnserved(t.Context(), sets, 100) // The worker came after the look.
	require.NoError(t, err)
	require.Zero(t, late)
	require.Empty(t, b.unserved(t))
}

func TestOneOffRunsWaitForAWorkerUntilTheirDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })
	b.announce(t, storetest.Worker{1}, dispatch.Placement{})
	b.unserved(t)
	_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{Deadline: new(time.Minute)})
	require.NoError(t, err)
	skips := func() int {
		n, err := b.Sweeps.SkipUnserved(t.Context(), b.unserved(t), 100)
		require.NoError(t, err)
		return n
	}
	b.pass(t, 40*time.Second)
	require.Zero(t, skips())
	b.pass(t, time.Minute)
	require.Equal(t, 1, skips())
	reason := storetest.Query[string](t, b.Bundle, "SELECT reason_code FROM runs WHERE endpoint_id = $1 AND source = 'manual'", e.ID)
	require.Equal(t, string(runs.DeadlinePassed), reason)
}

func TestUnusedTagSetsAreDropped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=us"} })
	b.Exec(t, "UPDATE tag_sets SET used_at = now() - interval '25 h' WHERE id <> 0")

	_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: time.Hour, Bodies: time.Hour, Letters: time.Hour, DaysAhead: 1})

	require.NoError(t, err)
	left := storetest.Query[string](t, b.Bundle, "SELECT string_agg(required::text, ' ' ORDER BY id) FROM tag_sets")
	require.Equal(t, "{} {region=us}", left)
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })
	require.Equal(t, int64(1), storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM tag_sets t JOIN schedules s ON s.tag_set_id = t.id WHERE t.required = '{region=eu}'"))
}

// TestSilentWorkerServesNoTags has the only worker with the tags die while another one lives.
func TestSilentWorkerServesNoTags(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })
	b.announce(t, storetest.Worker{1}, dispatch.Placement{Tags: []string{"region=eu"}})
	b.announce(t, storetest.Worker{2}, dispatch.Placement{})
	b.pass(t, 5*time.Minute)
	require.Empty(t, b.unserved(t))

	b.At(storetest.Noon().Add(5*time.Minute + 10*time.Second))
	b.announce(t, storetest.Worker{2}, dispatch.Placement{})
	require.Empty(t, b.unserved(t), "it has only begun")
	b.At(storetest.Noon().Add(5*time.Minute + 40*time.Second))
	b.announce(t, storetest.Worker{2}, dispatch.Placement{})
	require.Len(t, b.unserved(t), 1)
}
