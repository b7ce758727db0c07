package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// closeTimeout is how long the end of a program waits for a collector to take the last spans.
const closeTimeout = 2 * time.Second

// Config says where spans go and which of them. What else the OTEL_* variables of the environment say, such as headers, certificates,
// batch sizes and attributes of the resource, the exporter and the SDK read for themselves.
type Config struct {
	On       bool
	Endpoint string // the whole URL that spans are posted to
	Sampler  string // as OTEL_TRACES_SAMPLER names it
	Ratio    float64
	Service  Service
}

// Provider makes spans. A nil one makes none, and all its methods may be called.
type Provider struct {
	sdk *sdktrace.TracerProvider
}

// Open returns a provider, or nil where the configuration wants no traces. It does not connect: a collector that is away costs spans
// and nothing else, and is logged.
func Open(ctx context.Context, c Config, logger *slog.Logger) (*Provider, error) {
	if !c.On {
		return nil, nil //nolint:nilnil // No provider is what off means.
	}
	sampler, err := newSampler(c.Sampler, c.Ratio)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("preparing the export of traces: %w", err)
	}
	about, err := c.Service.resource(ctx)
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	listen(logger)
	return newProvider(sampler, about, sdktrace.WithBatcher(exporter)), nil
}

func newProvider(sampler sdktrace.Sampler, about *resource.Resource, out sdktrace.TracerProviderOption) *Provider {
	return &Provider{sdk: sdktrace.NewTracerProvider(
		out, sdktrace.WithSampler(sampler), sdktrace.WithResource(about), sdktrace.WithIDGenerator(ids{}),
	)}
}

// Close sends what is left, for two seconds at most.
func (p *Provider) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeTimeout, errors.New("the collector did not take the last spans in time"))
	defer cancel()
	if err := p.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans: %w", err)
	}
	return nil
}

// Tracers returns what makes tracers, for libraries that make spans of their own; nil where there are none.
func (p *Provider) Tracers() trace.TracerProvider {
	if p == nil {
		return nil
	}
	return p.sdk
}

// tracer returns the tracer of this package.
func (p *Provider) tracer() trace.Tracer { return p.sdk.Tracer("rubato/internal/tracing") }
