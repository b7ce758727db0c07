package tracing

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Service identifies the process to a collector.
type Service struct {
	Name    string
	Version string
	// Instance is unique among all processes with the same name.
	Instance string
}

// resource returns the attributes of the process by OpenTelemetry's conventions: service, SDK,
// host, operating system, container, process and runtime. It omits the arguments and the owner of
// the process, because arguments may hold secrets. OTEL_RESOURCE_ATTRIBUTES overrides them.
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
		return nil, fmt.Errorf("reading the resource attributes, with OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}
