package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// benchmarkFinish finishes the first run of an endpoint, which started late by some time.
func benchmarkFinish(b *testing.B, late time.Duration, edit func(*endpoints.Spec)) {
	b.Helper()
	spec := valid()
	edit(&spec)
	fresh := endpoints.Endpoint{ID: endpoints.ID{1}, Version: 1, CreatedAt: start, UpdatedAt: start, Spec: spec}
	parsed, err := spec.ParseCron(fresh.ID)
	require.NoError(b, err)
	fresh.Cron = parsed
	_, err = fresh.Replan(start)
	require.NoError(b, err)
	due := fresh.State.Due.Slot
	run := endpoints.Finished{
		Slot: due, Attempt: 1, StartedAt: due.Add(late), FinishedAt: due.Add(late + time.Second/4), Status: "succeeded", Verdict: endpoints.Success,
	}
	for b.Loop() {
		e := fresh
		if _, err := e.AfterRun(run.FinishedAt, run); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFinish is the hot path: no due time was missed.
func BenchmarkFinish(b *testing.B) {
	b.Run("interval", func(b *testing.B) { benchmarkFinish(b, 0, interval(time.Minute)) })
	b.Run("cron", func(b *testing.B) { benchmarkFinish(b, 0, cron("* * * * *", governor.CatchUpOnce)) })
}

// BenchmarkFinishAfterAMonth accounts for a month of missed due times, one a second.
func BenchmarkFinishAfterAMonth(b *testing.B) {
	b.Run("interval", func(b *testing.B) { benchmarkFinish(b, 30*day, interval(time.Second)) })
	b.Run("cron", func(b *testing.B) { benchmarkFinish(b, 30*day, cron("* * * * * *", governor.CatchUpOnce)) })
	b.Run("catching-up", func(b *testing.B) { benchmarkFinish(b, 30*day, cron("* * * * * *", governor.CatchUpAll)) })
	b.Run("clamped", func(b *testing.B) {
		benchmarkFinish(b, 30*day, func(s *endpoints.Spec) { cron("* * * * * *", governor.CatchUpOnce)(s); s.MinInterval = 2 * time.Second })
	})
}
