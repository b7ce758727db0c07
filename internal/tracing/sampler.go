package tracing

import (
	"encoding/binary"
	"fmt"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newSampler returns the sampler for a value of OTEL_TRACES_SAMPLER.
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
		return nil, fmt.Errorf("unknown trace sampler %q", name)
	}
	if parent {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}

// mixed hashes trace IDs for a ratio sampler. That sampler treats a part of the ID as a random
// number. The ID of a run is a UUID, whose version bits are in that part, so that without the hash
// a ratio of a tenth would sample no run.
type mixed struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler. The decision depends on the ID alone.
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
