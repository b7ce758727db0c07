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

// closeTimeout bounds the export of the last spans or metrics at shutdown.
const closeTimeout = 2 * time.Second

// Config selects the collector and the sampler. The exporter and the SDK read all other OTEL_*
// variables themselves, such as headers, certificates, batch sizes and resource attributes.
type Config struct {
	On bool
	// Endpoint is the full URL to which spans are posted.
	Endpoint string
	// Sampler is a value of OTEL_TRACES_SAMPLER.
	Sampler string
	Ratio   float64
	Service Service
}

// Provider creates spans. A nil provider creates none, and its methods may be called.
type Provider struct {
	sdk *sdktrace.TracerProvider
}

// Open returns a provider, or nil if tracing is off. It does not connect. If the collector is
// unreachable, spans are dropped and an error is logged; nothing else is affected.
func Open(ctx context.Context, c Config, logger *slog.Logger) (*Provider, error) {
	if !c.On {
		return nil, nil //nolint:nilnil // A nil provider means that tracing is off.
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

// Close exports the remaining spans within closeTimeout.
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

// Tracers returns the tracer provider for libraries that create spans; nil if tracing is off.
func (p *Provider) Tracers() trace.TracerProvider {
	if p == nil {
		return nil
	}
	return p.sdk
}

// tracer returns the tracer of this package.
func (p *Provider) tracer() trace.Tracer { return p.sdk.Tracer("rubato/internal/tracing") }
