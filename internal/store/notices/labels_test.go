package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// TestAnEpisodeThatIsFoundOpenNamesItsRun has a rule that is made after the runs failed.
func TestAnEpisodeThatIsFoundOpenNamesItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, nil)
	for range 3 {
		b.failOne(t, e.ID)
	}
	last := storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM runs ORDER BY id DESC LIMIT 1")
	keeper := b.PutRule(t, "failing", nil)
	b.At(storetest.Noon().Add(time.Hour))
	require.NoError(t, keeper.Watch(t.Context()))

	list, err := keeper.Claim(t.Context(), room(1), notices.Lock)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 3, list[0].Detail.Failures)
	require.Equal(t, runs.ID(last).String(), list[0].Detail.RunID)
	require.Equal(t, "failed", list[0].Detail.Status)
	require.NotEmpty(t, list[0].Detail.ReasonCode)
}

// TestAnEpisodeKeepsTheLabelsOfItsBegin edits the endpoint while its episode is open.
func TestAnEpisodeKeepsTheLabelsOfItsBegin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, func(s *endpoints.Spec) { s.Labels = map[string]string{"team": "shop"} })
	b.failOne(t, e.ID)
	b.Exec(t, `UPDATE endpoints SET spec = spec || '{"labels": {"team": "other"}}'`)

	list, err := keeper.Claim(t.Context(), room(1), notices.Lock)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, map[string]string{"team": "shop"}, list[0].Labels)
	require.Equal(t, e.Spec.Method, list[0].Spec.Method)
	require.Contains(t, e.Spec.URL, "://"+list[0].Host)
	require.NotEmpty(t, list[0].Host)

	b.Exec(t, "UPDATE notice_episodes SET labels = NULL")
	b.Exec(t, "UPDATE notices SET due_at = '2020-01-01'")
	list, err = keeper.Claim(t.Context(), room(1), notices.Lock)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "other"}, list[0].Labels, "a program of the release before opened it")
}

// TestAnEndIsOvertakenByABeginOfItsOwnLabelsAlone has the end of an alert sent again, after the
// next alert has been sent. Where that has other labels, it is another alert, and the first one
// would stay open.
func TestAnEndIsOvertakenByABeginOfItsOwnLabelsAlone(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"zone": true, "team": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.At(storetest.Noon())
			keeper := b.PutRule(t, "failing", func(s *notices.Spec) {
				s.Failures, s.Channel = 1, notices.Channel{Kind: notices.Alertmanager, URL: "http://alerts.example/", AlertLabels: []string{"team"}}
			})
			e := b.Register(t, func(s *endpoints.Spec) { s.Labels = map[string]string{"team": "shop", "zone": "a"} })
			b.failOne(t, e.ID)
			b.passOne(t, e.ID)
			b.Exec(t, "UPDATE endpoints SET spec = jsonb_set(spec, ARRAY ['labels', $1], '\"other\"')", name)
			b.failOne(t, e.ID)
			require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(DISTINCT labels) FROM notice_episodes"))
			b.Exec(t, "UPDATE notices SET state = 'delivered', ended_at = now(), attempts = 1 WHERE kind = 'opened'")

			list, err := keeper.Claim(t.Context(), room(1), notices.Lock)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, notices.Recovered, list[0].Kind)
			require.Equal(t, want, list[0].Overtaken)
		})
	}
}
