package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Trace holds the settings of OpenTelemetry export. Traces are off unless a collector is set.
type Trace struct {
	Off bool
	// Exporter is otlp or none.
	Exporter string
	// Endpoint is the base URL of a collector, to which /v1/traces and /v1/metrics are added.
	Endpoint string
	// TracesEndpoint is the full URL for traces and overrides Endpoint.
	TracesEndpoint string
	// Protocol must be http/protobuf if anything is exported.
	Protocol string
	// Sampler is one of samplers.
	Sampler string
	// SamplerArg is the ratio of a ratio sampler, from 0 to 1.
	SamplerArg float64
	// Service is the service name at the collector.
	Service string

	// MetricsExporter is otlp or none. The default is none, because every program serves its
	// metrics for scraping.
	MetricsExporter string
	// MetricsEndpoint is the full URL for metrics and overrides Endpoint.
	MetricsEndpoint string
}

// On reports whether traces are exported.
func (t Trace) On() bool {
	return !t.Off && t.Exporter == "otlp" && (t.Endpoint != "" || t.TracesEndpoint != "")
}

// URL returns the URL to which traces are posted.
func (t Trace) URL() string {
	if t.TracesEndpoint != "" {
		return t.TracesEndpoint
	}
	return strings.TrimRight(t.Endpoint, "/") + "/v1/traces"
}

// MetricsOn reports whether metrics are exported.
func (t Trace) MetricsOn() bool {
	return !t.Off && t.MetricsExporter == "otlp" && (t.Endpoint != "" || t.MetricsEndpoint != "")
}

// MetricsURL returns the URL to which metrics are posted.
func (t Trace) MetricsURL() string {
	if t.MetricsEndpoint != "" {
		return t.MetricsEndpoint
	}
	return strings.TrimRight(t.Endpoint, "/") + "/v1/metrics"
}

// samplers returns OpenTelemetry's names of the samplers that need no remote service.
func samplers() []string {
	return []string{
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off", "traceidratio",
	}
}

// traces returns the settings of OpenTelemetry export. The names are OpenTelemetry's own. Its other
// names are ignored, because they may be meant for other programs.
func traces() []Setting {
	return []Setting{
		{
			Name:   "OTEL_EXPORTER_OTLP_ENDPOINT",
			Doc:    "OpenTelemetry collector for traces, such as http://collector:4318; default: tracing is off",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return collectorURL(&c.Trace.Endpoint, v) },
			show:   func(c Config) string { return c.Trace.Endpoint },
		},
		{
			Name:   "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
			Doc:    "full URL for traces, if it is not /v1/traces of the collector",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return collectorURL(&c.Trace.TracesEndpoint, v) },
			show:   func(c Config) string { return c.Trace.TracesEndpoint },
		},
		{
			Name:   "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
			Doc:    "full URL for metrics, if it is not /v1/metrics of the collector",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return collectorURL(&c.Trace.MetricsEndpoint, v) },
			show:   func(c Config) string { return c.Trace.MetricsEndpoint },
		},
		{
			Name:    "OTEL_METRICS_EXPORTER",
			Default: "none",
			Doc:     "otlp: also push metrics to the collector; none: serve them on /metrics of the admin listener only",
			set:     func(c *Config, v string) error { return oneOf(&c.Trace.MetricsExporter, v, "otlp", "none") },
			show:    func(c Config) string { return c.Trace.MetricsExporter },
		},
		{
			Name:    "OTEL_EXPORTER_OTLP_PROTOCOL",
			Default: "http/protobuf",
			Doc:     "protocol of traces and metrics: http/protobuf, usually on port 4318",
			set:     func(c *Config, v string) error { c.Trace.Protocol = v; return nil },
			show:    func(c Config) string { return c.Trace.Protocol },
		},
		{
			Name:    "OTEL_TRACES_EXPORTER",
			Default: "otlp",
			Doc:     "exporter of traces: otlp, or none to turn tracing off",
			set:     func(c *Config, v string) error { return oneOf(&c.Trace.Exporter, v, "otlp", "none") },
			show:    func(c Config) string { return c.Trace.Exporter },
		},
		{
			Name:    "OTEL_TRACES_SAMPLER",
			Default: samplers()[0],
			Doc:     "sampler of traces: " + strings.Join(samplers(), ", "),
			set:     func(c *Config, v string) error { return oneOf(&c.Trace.Sampler, v, samplers()...) },
			show:    func(c Config) string { return c.Trace.Sampler },
		},
		{
			Name:    "OTEL_TRACES_SAMPLER_ARG",
			Default: "1",
			Doc:     "share of traces that a ratio sampler keeps, from 0 to 1",
			set:     func(c *Config, v string) error { return share(&c.Trace.SamplerArg, v) },
			show:    func(c Config) string { return strconv.FormatFloat(c.Trace.SamplerArg, 'g', -1, 64) },
		},
		{
			Name:    "OTEL_SERVICE_NAME",
			Default: "rubato",
			Doc:     "service name at the collector",
			set:     func(c *Config, v string) error { c.Trace.Service = v; return nil },
			show:    func(c Config) string { return c.Trace.Service },
		},
		{
			Name:    "OTEL_SDK_DISABLED",
			Default: "false",
			Doc:     "true: turn off traces and the push of metrics",
			// By OpenTelemetry's specification, any value but true means false.
			set:  func(c *Config, v string) error { c.Trace.Off = strings.EqualFold(v, "true"); return nil },
			show: func(c Config) string { return strconv.FormatBool(c.Trace.Off) },
		},
	}
}

// exportProblems returns the errors of the export settings. An unsupported protocol is an error
// only if something is exported, because the same environment may be meant for other programs.
func (t Trace) exportProblems() []string {
	var problems []string
	if t.On() {
		problems = append(problems, unsigned(endpointOf("TRACES", t.TracesEndpoint, t.Endpoint))...)
	}
	if t.MetricsOn() {
		problems = append(problems, unsigned(endpointOf("METRICS", t.MetricsEndpoint, t.Endpoint))...)
	}
	if (t.On() || t.MetricsOn()) && t.Protocol != "http/protobuf" {
		problems = append(problems, fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf (it is %q); every collector takes it, on port 4318 by custom", t.Protocol))
	}
	slices.Sort(problems)
	// Traces and metrics may share an address.
	return slices.Compact(problems)
}

// endpointOf returns the name and the value of the setting with a signal's address. The signal's
// own setting overrides the shared one.
func endpointOf(signal, own, shared string) (name, value string) {
	if own != "" {
		return "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT", own
	}
	return "OTEL_EXPORTER_OTLP_ENDPOINT", shared
}

// unsigned refuses an address with a user or parameters, because the exporter would not send them.
func unsigned(name, value string) []string {
	if u, err := url.Parse(value); err == nil && (u.User != nil || u.RawQuery != "") {
		return []string{name + ": must have no user, password or parameters, which would not be sent: put credentials into OTEL_EXPORTER_OTLP_HEADERS"}
	}
	return nil
}

func collectorURL(target *string, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must be a URL such as http://collector:4318")
	}
	*target = value
	return nil
}

func oneOf(target *string, value string, choices ...string) error {
	if !slices.Contains(choices, value) {
		return errors.New("must be one of " + strings.Join(choices, ", "))
	}
	*target = value
	return nil
}

func share(target *float64, value string) error {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return errors.New("must be a number from 0 to 1")
	}
	*target = f
	return nil
}
