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
	Service        string // how the programs are called in traces
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
			Name: "OTEL_EXPORTER_OTLP_PROTOCOL", Default: "http/protobuf", Doc: "how traces are sent: http/protobuf, the port of which is 4318 by custom",
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
			Name: "OTEL_SERVICE_NAME", Default: "rubato", Doc: "how the program is called in its traces",
			set:  func(c *Config, v string) error { c.Trace.Service = v; return nil },
			show: func(c Config) string { return c.Trace.Service },
		},
		{
			Name: "OTEL_SDK_DISABLED", Default: "false", Doc: "true: no traces are made",
			set:  func(c *Config, v string) error { c.Trace.Off = strings.EqualFold(v, "true"); return nil }, // OpenTelemetry: anything else is false.
			show: func(c Config) string { return strconv.FormatBool(c.Trace.Off) },
		},
	}
}

// unsendable returns what is wrong with the settings of traces together. Elsewhere the same environment may say something to other
// programs, so a protocol that we do not speak is wrong only where it would cost traces.
func (t Trace) unsendable() []string {
	if !t.On() {
		return nil
	}
	var problems []string
	if t.Protocol != "http/protobuf" {
		problems = append(problems, fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf (it is %q); every collector takes it, on port 4318 by custom", t.Protocol))
	}
	name, value := "OTEL_EXPORTER_OTLP_ENDPOINT", t.Endpoint
	if t.TracesEndpoint != "" {
		name, value = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", t.TracesEndpoint
	}
	if u, err := url.Parse(value); err == nil && (u.User != nil || u.RawQuery != "") {
		problems = append(problems, name+": must have no user, password or parameters, which would not be sent: what signs in belongs into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return problems
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
