package sourcetext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/sourcetext"
)

func TestTheCauseOfADueTimeIsNamed(t *testing.T) {
	t.Parallel()
	minute, cron := new(int64(60_000)), new("0 * * * *")
	hinted := client.Hints{Interval: &client.IntervalHint{Author: "ann"}, OneShot: &client.OneShotHint{Author: "planner:rules"}}
	for name, tc := range map[string]struct {
		endpoint client.Endpoint
		source   client.Source
		want     string
	}{
		"Interval":       {client.Endpoint{BaselineIntervalMs: minute}, client.SourceBaselineInterval, "interval"},
		"Backoff":        {client.Endpoint{BaselineIntervalMs: minute, FailureCount: 3}, client.SourceBaselineInterval, "backoff x8"},
		"LongestBackoff": {client.Endpoint{BaselineIntervalMs: minute, FailureCount: 900}, client.SourceBaselineInterval, "backoff x32"},
		"BackoffClamped": {client.Endpoint{BaselineIntervalMs: minute, FailureCount: 5}, client.SourceClampedMax, "longest interval, backoff x32"},
		"HintClamped":    {client.Endpoint{BaselineIntervalMs: minute, FailureCount: 5, Hints: hinted}, client.SourceClampedMax, "longest interval"},
		"CronClamped":    {client.Endpoint{BaselineCron: cron, FailureCount: 5}, client.SourceClampedMax, "longest interval"},
		"HintOfAPerson":  {client.Endpoint{Hints: hinted}, client.SourceAiInterval, "hint by ann"},
		"HintOfNow":      {client.Endpoint{Hints: hinted}, client.SourceAiOneshot, "one-shot hint by planner:rules"},
		"HintOver":       {client.Endpoint{}, client.SourceAiInterval, "interval hint"},
		"New":            {client.Endpoint{}, "of-a-newer-server", "of-a-newer-server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.endpoint.NextSource = &tc.source
			require.Equal(t, tc.want, sourcetext.Next(tc.endpoint))
		})
	}
	require.Empty(t, sourcetext.Next(client.Endpoint{}))
}
