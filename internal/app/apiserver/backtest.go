package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/simulate"
)

// Backtest replays recorded runs of an endpoint under other policies; see package simulate.
type Backtest struct {
	// Endpoint is the endpoint as the API shows it.
	Endpoint json.RawMessage
	// Policies are names, or objects with a name and fields of the endpoint.
	Policies []any
	// Runs are the recorded runs that sent a request, in ascending order.
	Runs []RecordedRun
}

// RecordedRun is a recorded run, as far as a backtest depends on it.
type RecordedRun = simulate.Look

// Run computes the backtest without a server. The result is a JSON object with the rows as items.
// It returns faults and no result if policies are bad.
func (b Backtest) Run(ctx context.Context) (result json.RawMessage, faults []Fault, err error) {
	document, err := specOf(b.Endpoint)
	if err != nil {
		return nil, nil, err
	}
	backtest, err := simulate.Reader{Check: checkEndpoint}.ReadBacktest(document, b.Policies, b.Runs)
	if faults := faultsOf(err); len(faults) > 0 {
		return nil, faults, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err := backtest.Run(ctx)
	if err != nil {
		return nil, nil, err
	}
	result, err = itemsOf(rows)
	return result, nil, err
}

// specOf returns the configuration of an endpoint as the API shows it, without its state.
func specOf(endpoint json.RawMessage) (document map[string]any, err error) {
	var shown map[string]any
	decoder := json.NewDecoder(bytes.NewReader(endpoint))
	decoder.UseNumber()
	if err := decoder.Decode(&shown); err != nil {
		return nil, fmt.Errorf("reading the endpoint: %w", err)
	}
	spec, err := endpoints.ReadSpec(shown)
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint: %w", err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the endpoint: %w", err)
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("encoding the endpoint: %w", err)
	}
	return document, nil
}
