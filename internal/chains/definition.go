// Package chains defines chains: steps that depend on each other, and their compensation. It holds
// the definition with its validation, the state machine of a run, and [Advance], which decides the
// next moves. It is pure: package store/chains keeps the rows, and workers carry out the steps as
// one-off runs.
package chains

import (
	"encoding/json"
	"time"

	"rubato/internal/ids"
)

// Bounds of a definition and of its values.
const (
	MaxSteps = 100
	// MaxItems bounds the elements of forEach.
	MaxItems = 1000
	// MaxElements bounds the elements of all steps with forEach in one run, because each advance of
	// the run reads the states of all of them.
	MaxElements = 5000
	// MaxOpenRuns bounds the runs of a tenant that have not ended.
	MaxOpenRuns = 10_000
	// MaxShownElements bounds the elements that the answer about a run lists one by one.
	MaxShownElements = 100
	// MaxParallel bounds the elements of forEach that run at once.
	MaxParallel = 100
	// DefaultParallel is the number of elements that run at once by default.
	DefaultParallel = 10
	// MaxInput bounds the input of a run, in bytes of JSON.
	MaxInput = 64 << 10
	// MaxOutput bounds the outputs of a step, in bytes of JSON.
	MaxOutput = 64 << 10
	// MaxItemOutput bounds the outputs of one element of forEach, in bytes of JSON.
	MaxItemOutput = 4 << 10
	// MaxRunOutput bounds the outputs of a run, in bytes of JSON. They may repeat the outputs of
	// all elements of a step, under several names.
	MaxRunOutput = 1 << 20
	// MaxTimeout bounds timeoutMs.
	MaxTimeout = 366 * 24 * time.Hour

	maxNames = 50 // inputs, and outputs of a step or chain
)

// RunID identifies a run of a chain.
type RunID [16]byte

var runIDKind = ids.Kind{Prefix: "chr_", Noun: "chain run"}

// ParseRunID parses the form that String writes; see [ids.Kind.Parse].
func ParseRunID(s string) (RunID, error) {
	id, err := runIDKind.Parse(s)
	return id, err
}

// String returns chr_ and the UUID in its canonical form.
func (id RunID) String() string { return runIDKind.String(id) }

// OnFailure is what a chain does after a step failed.
type OnFailure string

// The reactions to a failed step.
const (
	// Stop starts no further step. Steps that run end on their own.
	Stop OnFailure = "stop"
	// Continue starts the steps that do not depend on the failed one.
	Continue OnFailure = "continue"
	// Compensate stops, and then undoes the steps that succeeded, the last one first. It does so
	// after a timeout and a cancel too.
	Compensate OnFailure = "compensate"
)

// Definition is a chain as its user wrote it.
type Definition struct {
	// Name is unique for its tenant.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Inputs are the values that a run is started with, by name.
	Inputs map[string]Input `json:"inputs,omitempty"`
	Steps  []StepSpec       `json:"steps"`
	// Outputs are the values of the chain: paths such as steps.charge.output.id, by name.
	Outputs map[string]string `json:"outputs,omitempty"`
	// OnFailure is empty for stop.
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// TimeoutMs bounds the steps of a run from its start; 0: no bound. Compensation has its own
	// time.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
}

// Input is a value that a run is started with.
type Input struct {
	// Required means that a run must give it. It cannot have a default.
	Required bool `json:"required,omitempty"`
	// Default is the value of a run that does not give it; nil: none.
	Default     json.RawMessage `json:"default,omitempty"`
	Description string          `json:"description,omitempty"`
}

// StepSpec is a step of a chain.
type StepSpec struct {
	Name string `json:"name"`
	// EndpointID is the endpoint that the step runs; empty: the step sends Request as a call.
	EndpointID string `json:"endpointId,omitempty"`
	// Request replaces parts of the request of the endpoint, or is the whole request of a call.
	Request *Request `json:"request,omitempty"`
	// After are the steps that have to end before.
	After []string `json:"after,omitempty"`
	// When is a CEL expression over input and steps; empty: the step always runs.
	When string `json:"when,omitempty"`
	// ForEach is the path of a list. The step runs once for each element.
	ForEach string `json:"forEach,omitempty"`
	// Parallel bounds the elements that run at once; 0: [DefaultParallel].
	Parallel int `json:"parallel,omitempty"`
	// Outputs are the values that are kept of the answer: JSONPaths by name.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Compensation undoes the step; nil: nothing does.
	Compensation *Compensation `json:"compensation,omitempty"`
}

// Compensation is the request that undoes a step.
type Compensation struct {
	// EndpointID is the endpoint that it runs; empty: Request is sent as a call.
	EndpointID string   `json:"endpointId,omitempty"`
	Request    *Request `json:"request,omitempty"`
}

// Request holds the templated parts of a step's request that replace those of its endpoint. With
// URL it is the request of a call, and needs no endpoint.
type Request struct {
	URL string `json:"url,omitempty"`
	// Method is empty for POST. Method and the fields below belong to a call.
	Method string `json:"method,omitempty"`
	// TimeoutMs is the timeout of an attempt; 0: that of a call.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// MaxAttempts is the maximum number of attempts; 0: 1 for a step, 5 for a compensation.
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// Idempotent permits sending the request again although it may have arrived. That of a
	// compensation may always be sent again.
	Idempotent bool `json:"idempotent,omitempty"`

	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	Body    *string           `json:"body,omitempty"`
}

// Timeout returns the bound of a run; 0: none.
func (d *Definition) Timeout() time.Duration { return time.Duration(d.TimeoutMs) * time.Millisecond }

// step returns a step by its name; nil: there is none.
func (d *Definition) step(name string) *StepSpec {
	for i := range d.Steps {
		if d.Steps[i].Name == name {
			return &d.Steps[i]
		}
	}
	return nil
}

// names returns the keys of a map.
func names[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	return list
}
