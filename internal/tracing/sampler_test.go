package tracing

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/runs"
)

// The marks of a UUID stand where a sampler by ratio looks for chance.
func TestRatioSamplerHoldsForRunIDs(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{0, 0.01, 0.1, 0.5, 1} {
		s, err := newSampler("parentbased_traceidratio", ratio)
		require.NoError(t, err)
		kept := 0
		const all = 20_000
		endpoint := [16]byte(uuid.MustParse("0195c8a0-5b7e-7c3d-9d41-8f2a6e5b4c30")) // Always the same: of random ones every two hundredth is beyond the bound.
		for n := range all {
			id := runs.NewID(time.UnixMilli(int64(n)*1000), endpoint, 1, 0)
			p := sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: trace.TraceID(id)}
			first, again := s.ShouldSample(p), s.ShouldSample(p)
			require.Equal(t, first.Decision, again.Decision, "every process decides alike")
			if first.Decision == sdktrace.RecordAndSample {
				kept++
			}
		}
		require.InDelta(t, ratio, float64(kept)/all, 0.01, "of %v", ratio)
	}
}

func TestSamplersAreKnownByTheirNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]sdktrace.SamplingDecision{
		"always_on": sdktrace.RecordAndSample, "always_off": sdktrace.Drop, "traceidratio": sdktrace.RecordAndSample,
		"parentbased_always_on": sdktrace.RecordAndSample, "parentbased_always_off": sdktrace.Drop,
	} {
		s, err := newSampler(name, 1)
		require.NoError(t, err, name)
		got := s.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: trace.TraceID{1}})
		require.Equal(t, want, got.Decision, name)
	}
	_, err := newSampler("jaeger_remote", 1)
	require.Error(t, err)
}
