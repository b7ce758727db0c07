package tracing

import (
	"encoding/binary"
	"fmt"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newSampler returns the sampler that OTEL_TRACES_SAMPLER names.
func newSampler(name string, ratio float64) (sdktrace.Sampler, error) {
	base, parent := strings.CutPrefix(name, "parentbased_")
	var s sdktrace.Sampler
	switch base {
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		s = mixed{sdktrace.TraceIDRatioBased(ratio)}
	default:
		return nil, fmt.Errorf("%q is no sampler of traces", name)
	}
	if parent {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}

// mixed shows a sampler by ratio other IDs than the traces have. That one reads a number out of the ID and takes it for chance; the ID of
// a run is a UUID, whose marks stand where it reads, so that of a tenth of all runs it would take none.
type mixed struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler. The same ID is always judged alike.
func (m mixed) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	x := binary.BigEndian.Uint64(p.TraceID[:8]) ^ binary.BigEndian.Uint64(p.TraceID[8:])
	// The finalizer of SplitMix64: every bit of the input changes half of the output.
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	binary.BigEndian.PutUint64(p.TraceID[8:], x)
	return m.Sampler.ShouldSample(p)
}
