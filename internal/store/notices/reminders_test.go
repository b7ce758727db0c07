package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/notices"
	"rubato/internal/store/storetest"
)

// TestRemindersOfAnOpenEpisodeFollowTheRule edits how often a rule reminds, half an hour after an
// episode of it began.
func TestRemindersOfAnOpenEpisodeFollowTheRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after time.Duration
		first, second time.Duration // after the begin; zero: none comes
	}{
		"AskedFor":   {before: 0, after: time.Hour, first: 90 * time.Minute, second: 150 * time.Minute},
		"MoreOften":  {before: 24 * time.Hour, after: 10 * time.Minute, first: 40 * time.Minute, second: 50 * time.Minute},
		"LessOften":  {before: time.Hour, after: 24 * time.Hour, first: time.Hour, second: 25 * time.Hour},
		"AsOften":    {before: time.Hour, after: time.Hour, first: time.Hour, second: 2 * time.Hour},
		"NotAnyMore": {before: time.Hour, after: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			remind := func(every time.Duration) func(*notices.Spec) {
				return func(s *notices.Spec) { s.Failures, s.Remind = 1, every }
			}
			b.opened(t, remind(tc.before))
			began := storetest.Query[time.Time](t, b.Bundle, "SELECT opened_at FROM notice_episodes")
			b.At(began.Add(30 * time.Minute))
			keeper := b.PutRule(t, "failing", remind(tc.after))
			comes := func(after time.Duration) {
				b.At(began.Add(after - time.Second))
				require.NoError(t, keeper.Watch(t.Context()))
				require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notices WHERE state = 'waiting'"), "before %s", after)
				b.At(began.Add(after))
				require.NoError(t, keeper.Watch(t.Context()))
				require.Equal(t, notices.Reminder, deliverOne(t, keeper).Kind)
			}
			if tc.after > 0 {
				comes(tc.first)
				comes(tc.second)
				return
			}
			b.At(began.Add(48 * time.Hour))
			require.NoError(t, keeper.Watch(t.Context()))
			require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
		})
	}
}

// TestAlertStaysOpenAfterLastReminder turns the reminders of a rule off. Each notice sets the end
// of the alert in Alertmanager to some time after the next reminder, so the last one must set no
// end.
func TestAlertStaysOpenAfterLastReminder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opened(t, changed(func(s *notices.Spec) { s.Remind = time.Hour }))
	began := storetest.Query[time.Time](t, b.Bundle, "SELECT opened_at FROM notice_episodes")
	keeper := b.PutRule(t, "failing", failing)
	b.At(began.Add(time.Hour))
	require.NoError(t, keeper.Watch(t.Context()))
	last := deliverOne(t, keeper)
	require.Equal(t, notices.Reminder, last.Kind)
	require.Zero(t, last.Remind)
	b.At(began.Add(20 * 24 * time.Hour))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "reminder"}, b.NoticeKinds(t))
}
