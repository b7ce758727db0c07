package tracing

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Service says which process spans and metrics come from.
type Service struct {
	Name     string
	Version  string
	Instance string // unique among all processes that send under the same name
}

// resource returns what a collector is told of the process, by OpenTelemetry's conventions: service, SDK, host, operating system, container,
// process and runtime. The arguments and the owner of the process are left out, because arguments may hold secrets. What
// OTEL_RESOURCE_ATTRIBUTES says wins.
func (s Service) resource(ctx context.Context) (*resource.Resource, error) {
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithOSType(), resource.WithContainerID(),
		resource.WithProcessPID(), resource.WithProcessExecutableName(), resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion(),
		resource.WithAttributes(
			semconv.ServiceName(s.Name), semconv.ServiceVersion(s.Version), semconv.ServiceInstanceID(s.Instance),
		),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe the process to the collector, with OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}
