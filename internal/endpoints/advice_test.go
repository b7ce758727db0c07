package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// TestClampsSetTheGapBetweenDueTimesOfACron: the gap between due times of a cron includes its
// clamps. Everything that steers an endpoint relies on that gap.
func TestClampsSetTheGapBetweenDueTimesOfACron(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 24, 9, 7, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		cron     string
		min, max time.Duration
		want     time.Duration
	}{
		"Unbounded":    {cron: "*/10 * * * *", want: 10 * time.Minute},
		"Within":       {cron: "*/10 * * * *", min: time.Minute, max: time.Hour, want: 10 * time.Minute},
		"BelowMinimum": {cron: "*/10 * * * *", min: time.Hour, want: time.Hour},
		"AboveMaximum": {cron: "0 3 * * *", max: 5 * time.Minute, want: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &endpoints.Endpoint{Spec: endpoints.Defaults()}
			e.Spec.BaselineCron, e.Spec.MinInterval, e.Spec.MaxInterval = tc.cron, tc.min, tc.max
			tempo, err := e.Tempo(now)
			require.NoError(t, err)
			usual, err := e.Usual(now)
			require.NoError(t, err)
			require.Equal(t, tc.want, tempo)
			require.Equal(t, tc.want, usual)
		})
	}
}
