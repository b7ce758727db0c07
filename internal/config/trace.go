package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Trace says where traces go, in the words of OpenTelemetry. None are made unless a collector is named.
type Trace struct {
	Off            bool
	Exporter       string // otlp or none
	Endpoint       string // of a collector; /v1/traces is added. Empty: not named here
	TracesEndpoint string // the whole URL for traces, which wins. Empty: not named here
	Protocol       string // http/protobuf; anything else is refused where traces are made
	Sampler        string // which traces are kept
	SamplerArg     float64
	Service        string // how the programs are called at the collector

	// MetricsExporter is otlp or none. It is none unless set, because every program serves its metrics already.
	MetricsExporter string
	MetricsEndpoint string // the whole URL for metrics, which wins over Endpoint. Empty: not named here
}

// On reports whether traces are to be made.
func (t Trace) On() bool {
	return !t.Off && t.Exporter == "otlp" && (t.Endpoint != "" || t.TracesEndpoint != "")
}

// URL returns where traces are posted to.
func (t Trace) URL() string {
	if t.TracesEndpoint != "" {
		return t.TracesEndpoint
	}
	return strings.TrimRight(t.Endpoint, "/") + "/v1/traces"
}

// MetricsOn reports whether metrics are to be sent to a collector.
func (t Trace) MetricsOn() bool {
	return !t.Off && t.MetricsExporter == "otlp" && (t.Endpoint != "" || t.MetricsEndpoint != "")
}

// MetricsURL returns where metrics are posted to.
func (t Trace) MetricsURL() string {
	if t.MetricsEndpoint != "" {
		return t.MetricsEndpoint
	}
	return strings.TrimRight(t.Endpoint, "/") + "/v1/metrics"
}

// samplers are the names that OpenTelemetry gives to ways of choosing traces, as far as they need nobody else.
func samplers() []string {
	return []string{
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off", "traceidratio",
	}
}

// traces returns the settings of traces. Their names are OpenTelemetry's own, so other names of its are none of our business.
func traces() []Setting {
	return []Setting{
		{
			Name: "OTEL_EXPORTER_OTLP_ENDPOINT", Doc: "the OpenTelemetry collector that traces are sent to, such as http://collector:4318; no traces are made unless it is set", Secret: true, url: true,
			set:  func(c *Config, v string) error { return collectorURL(&c.Trace.Endpoint, v) },
			show: func(c Config) string { return c.Trace.Endpoint },
		},
		{
			Name: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", Doc: "the whole URL that traces are sent to, where it is not /v1/traces of the collector", Secret: true, url: true,
			set:  func(c *Config, v string) error { return collectorURL(&c.Trace.TracesEndpoint, v) },
			show: func(c Config) string { return c.Trace.TracesEndpoint },
		},
		{
			Name: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", Doc: "the whole URL that metrics are sent to, where it is not /v1/metrics of the collector", Secret: true, url: true,
			set:  func(c *Config, v string) error { return collectorURL(&c.Trace.MetricsEndpoint, v) },
			show: func(c Config) string { return c.Trace.MetricsEndpoint },
		},
		{
			Name: "OTEL_METRICS_EXPORTER", Default: "none", Doc: "otlp: metrics are sent to the collector too, beside /metrics of the admin listener; or none",
			set:  func(c *Config, v string) error { return oneOf(&c.Trace.MetricsExporter, v, "otlp", "none") },
			show: func(c Config) string { return c.Trace.MetricsExporter },
		},
		{
			Name: "OTEL_EXPORTER_OTLP_PROTOCOL", Default: "http/protobuf", Doc: "how traces and metrics are sent: http/protobuf, the port of which is 4318 by custom",
			set:  func(c *Config, v string) error { c.Trace.Protocol = v; return nil },
			show: func(c Config) string { return c.Trace.Protocol },
		},
		{
			Name: "OTEL_TRACES_EXPORTER", Default: "otlp", Doc: "otlp, or none: no traces are made",
			set:  func(c *Config, v string) error { return oneOf(&c.Trace.Exporter, v, "otlp", "none") },
			show: func(c Config) string { return c.Trace.Exporter },
		},
		{
			Name: "OTEL_TRACES_SAMPLER", Default: samplers()[0], Doc: "which traces are made: " + strings.Join(samplers(), ", "),
			set:  func(c *Config, v string) error { return oneOf(&c.Trace.Sampler, v, samplers()...) },
			show: func(c Config) string { return c.Trace.Sampler },
		},
		{
			Name: "OTEL_TRACES_SAMPLER_ARG", Default: "1", Doc: "the share of traces that a sampler by ratio makes, from 0 to 1",
			set:  func(c *Config, v string) error { return share(&c.Trace.SamplerArg, v) },
			show: func(c Config) string { return strconv.FormatFloat(c.Trace.SamplerArg, 'g', -1, 64) },
		},
		{
			Name: "OTEL_SERVICE_NAME", Default: "rubato", Doc: "how the program is called at the collector",
			set:  func(c *Config, v string) error { c.Trace.Service = v; return nil },
			show: func(c Config) string { return c.Trace.Service },
		},
		{
			Name: "OTEL_SDK_DISABLED", Default: "false", Doc: "true: no traces are made and no metrics sent",
			set:  func(c *Config, v string) error { c.Trace.Off = strings.EqualFold(v, "true"); return nil }, // OpenTelemetry: anything else is false.
			show: func(c Config) string { return strconv.FormatBool(c.Trace.Off) },
		},
	}
}

// unsendable returns what is wrong with the settings of a collector together. Elsewhere the same environment may say something to other
// programs, so a protocol that Rubato does not speak is refused only if something is to be sent.
func (t Trace) unsendable() []string {
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
	return slices.Compact(problems) // Both may have the same address.
}

// endpointOf returns the setting that says where a signal is sent, and its value: the signal's own wins over the shared one.
func endpointOf(signal, own, shared string) (name, value string) {
	if own != "" {
		return "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT", own
	}
	return "OTEL_EXPORTER_OTLP_ENDPOINT", shared
}

// unsigned refuses an address that holds what the exporter would not send.
func unsigned(name, value string) []string {
	if u, err := url.Parse(value); err == nil && (u.User != nil || u.RawQuery != "") {
		return []string{name + ": must have no user, password or parameters, which would not be sent: what signs in belongs into OTEL_EXPORTER_OTLP_HEADERS"}
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
