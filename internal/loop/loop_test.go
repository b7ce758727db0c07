package loop_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"rubato/internal/loop"
)

func runner(t *testing.T) (*loop.Runner, *strings.Builder, func(name loop.Name) float64) {
	t.Helper()
	var log strings.Builder
	registry := prometheus.NewRegistry()
	r := loop.NewRunner(slog.New(slog.NewTextHandler(&log, nil)), registry)
	return r, &log, func(name loop.Name) float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, metric := range families[0].GetMetric() {
			if metric.GetLabel()[0].GetValue() == string(name) {
				return metric.GetCounter().GetValue()
			}
		}
		t.Fatalf("no series of loop %s", name)
		return 0
	}
}

func poisoned() { panic("a poisoned row") }

func TestLoopRestartsWithBackoffAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, count := runner(t)
		var begins []time.Time
		r.Run(t.Context(), loop.Claim, func(context.Context) {
			if begins = append(begins, time.Now()); len(begins) < 10 {
				poisoned()
			}
		})
		require.Len(t, begins, 10)
		want := 100 * time.Millisecond
		for i := 1; i < len(begins); i++ {
			require.InDelta(t, want.Seconds(), begins[i].Sub(begins[i-1]).Seconds(), want.Seconds()/5+0.001, "backoff %d", i)
			want = min(2*want, 3*time.Second)
		}
		require.InDelta(t, 9, count(loop.Claim), 0)
		require.Zero(t, count(loop.Start))
		require.Contains(t, log.String(), "a poisoned row")
		require.Contains(t, log.String(), "loop_test.poisoned", "the stack names the function")
	})
}

func TestBackoffResetsAfterAMinuteWithoutAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := runner(t)
		var panicked []time.Time
		var begins []time.Time
		r.Run(t.Context(), loop.Finish, func(context.Context) {
			begins = append(begins, time.Now())
			switch len(begins) {
			case 7:
				<-time.After(time.Minute)
			case 8:
				return
			}
			panicked = append(panicked, time.Now())
			poisoned()
		})
		require.Greater(t, begins[6].Sub(panicked[5]), 2*time.Second)
		require.Less(t, begins[7].Sub(panicked[6]), 200*time.Millisecond)
	})
}

func TestContextEndsTheBackoffOfALoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := runner(t)
		ctx, cancel := context.WithCancel(t.Context())
		r.Run(ctx, loop.Sweep, func(context.Context) { cancel(); poisoned() })
	})
}

func TestRunnersOfARegistryShareTheMetric(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 2 {
		require.Error(t, loop.NewRunner(slog.New(slog.DiscardHandler), registry).Contain(loop.Heap, poisoned))
	}
	n, err := testutil.GatherAndCount(registry, "rubato_loop_panics_total")
	require.NoError(t, err)
	require.Len(t, loop.Names(), n, "each loop has a series from the start, or its first panic is no increase")
	var is *loop.PanicError
	require.ErrorAs(t, loop.NewRunner(slog.New(slog.DiscardHandler), registry).Contain(loop.Heap, poisoned), &is)
	require.Equal(t, "the heap loop panicked: a poisoned row", is.Error())
}
