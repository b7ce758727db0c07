package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
)

// MetricsConfig says where metrics go. How often, with which headers, certificates and temporality, the exporter and the SDK read from the
// OTEL_* variables of the environment.
type MetricsConfig struct {
	On       bool
	Endpoint string // the whole URL that metrics are posted to
	Service  Service
}

// Metrics sends the metrics of a Prometheus registry to a collector, once a minute unless OTEL_METRIC_EXPORT_INTERVAL says otherwise. A
// nil one sends none, and its methods may be called.
type Metrics struct {
	sdk *metric.MeterProvider
}

// OpenMetrics starts to send what the registry holds, or returns nil if the configuration wants none. The registry is the only source, so a
// collector and a Prometheus server that scrapes the same process see the same numbers under the same names. A collector that is away costs
// the points of that time and is logged.
func OpenMetrics(ctx context.Context, c MetricsConfig, source prometheus.Gatherer, logger *slog.Logger) (*Metrics, error) {
	if !c.On {
		return nil, nil //nolint:nilnil // No sender is what off means.
	}
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(c.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("prepare the export of metrics: %w", err)
	}
	about, err := c.Service.resource(ctx)
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	listen(logger)
	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(source))))
	return &Metrics{sdk: metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about))}, nil
}

// Close sends the metrics a last time, for two seconds at most.
func (m *Metrics) Close(ctx context.Context) error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeTimeout, errors.New("the collector did not take the last metrics in time"))
	defer cancel()
	if err := m.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last metrics: %w", err)
	}
	return nil
}
