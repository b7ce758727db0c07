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

// MetricsConfig selects the collector of metrics. The exporter and the SDK read the interval,
// headers, certificates and temporality from the OTEL_* variables.
type MetricsConfig struct {
	On bool
	// Endpoint is the full URL to which metrics are posted.
	Endpoint string
	Service  Service
}

// Metrics pushes the metrics of a Prometheus registry to a collector, once a minute or at
// OTEL_METRIC_EXPORT_INTERVAL. A nil value pushes none, and its methods may be called.
type Metrics struct {
	sdk *metric.MeterProvider
}

// OpenMetrics starts to push the registry, or returns nil if the push is off. The registry is the
// only source, so that a collector and a Prometheus server see the same values under the same
// names. If the collector is unreachable, the points of that time are lost and an error is logged.
func OpenMetrics(ctx context.Context, c MetricsConfig, source prometheus.Gatherer, logger *slog.Logger) (*Metrics, error) {
	if !c.On {
		return nil, nil //nolint:nilnil // A nil value means that the push is off.
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

// Close pushes the metrics one last time within closeTimeout.
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
