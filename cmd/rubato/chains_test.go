package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rubato/client"
)

// TestChainsArePrintedInTheFormThatApplyReads reads the YAML of a definition back.
func TestChainsArePrintedInTheFormThatApplyReads(t *testing.T) {
	t.Parallel()
	const definition = `{"inputs":{"n":{"default":1e2}},"steps":[{"name":"a","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90",` +
		`"request":{"body":"line one\nno: {{input.n}}","query":{"yes":"no"}}}]}`
	var spec client.ChainSpec
	require.NoError(t, json.Unmarshal([]byte(definition), &spec))
	text, err := asYAML(spec)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^inputs:\n.*steps:\n +- `, string(text), "in the order of the contract, in blocks")
	var back map[string]any
	require.NoError(t, yaml.Unmarshal(text, &back))
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.JSONEq(t, definition, string(again))
}
