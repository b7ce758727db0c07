package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
	"rubato/internal/simulate"
)

// Simulation is a simulation of a scenario; see package simulate.
type Simulation struct {
	// Scenario is a JSON object.
	Scenario json.RawMessage
	// Open reads a file that the scenario names.
	Open func(name string) ([]byte, error)
	// Length is the simulated time, positive.
	Length time.Duration
	// Seeds is the number of repetitions, positive.
	Seeds int
}

// Fault is a bad field of a scenario and its right form.
type Fault struct{ Field, Message string }

// Run simulates the scenario without a server. The result is a JSON object with the rows as items.
// It returns faults and no result if fields are bad.
func (s Simulation) Run(ctx context.Context) (result json.RawMessage, faults []Fault, err error) {
	scenario, err := ReadScenario(s.Scenario, s.Open)
	if faults := faultsOf(err); len(faults) > 0 {
		return nil, faults, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err := scenario.Run(ctx, simulate.Options{Length: s.Length, Seeds: s.Seeds})
	if err != nil {
		return nil, nil, err
	}
	result, err = itemsOf(rows)
	return result, nil, err
}

// ReadScenario reads a scenario from a JSON object. open reads a file that it names. The error is
// an [errs.Invalid] that names every bad field, unless the text is no JSON object.
func ReadScenario(text json.RawMessage, open func(name string) ([]byte, error)) (simulate.Scenario, error) {
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return simulate.Scenario{}, fmt.Errorf("reading the scenario: %w", err)
	}
	return simulate.Reader{Check: checkEndpoint, Open: open}.Read(document)
}

// faultsOf returns the bad fields that an error names.
func faultsOf(err error) (faults []Fault) {
	for _, f := range errs.FieldsOf(err) {
		faults = append(faults, Fault{f.Field, f.Message})
	}
	return faults
}

// itemsOf returns rows as the API shows lists.
func itemsOf[T any](rows []T) (json.RawMessage, error) {
	return json.Marshal(map[string]any{"items": rows})
}

// checkEndpoint reads the document of an endpoint as the API does.
func checkEndpoint(document map[string]any) (endpoints.Spec, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return endpoints.Spec{}, fmt.Errorf("encoding an endpoint: %w", err)
	}
	return httpapi.ReadEndpoint(body)
}
