package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rubato/client"
	"rubato/internal/app"
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

// TestApplyOfAChainPrintsItsWarnings stores a chain with a credential in clear.
func TestApplyOfAChainPrintsItsWarnings(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"order","version":2,"definition":{"steps":[]},"createdAt":"2026-11-29T10:00:00Z","updatedAt":"2026-11-29T10:00:00Z",`+
			`"warnings":[{"field":"steps.0.request.headers.Authorization","code":"secret_in_clear","message":"is stored as it is"}]}`)
	}))
	t.Cleanup(server.Close)
	var printed bytes.Buffer
	s := &session{stdin: strings.NewReader(`{"steps":[]}`), stdout: &printed, stderr: io.Discard}

	code := s.run(t.Context(), []string{"chains", "apply", "order", "-f", "-", "--api-key", "any", "--server", server.URL})

	require.Equal(t, app.ExitOK, code)
	require.Equal(t, "chain order has version 2\nwarning: steps.0.request.headers.Authorization: is stored as it is\n", printed.String())
}

// TestAStepPrintsTheNumbersOfItsElements has a step of which only the failed element is listed.
func TestAStepPrintsTheNumbersOfItsElements(t *testing.T) {
	t.Parallel()
	whole := client.ChainRunStep{Name: "a", Status: "failed", Reason: new("element_failed"), Elements: &map[string]int32{"succeeded": 998, "failed": 2}}
	require.Equal(t, [2]string{"step a", "failed, elements 2 failed, 998 succeeded, element_failed"}, stepFact(whole))
	require.Equal(t, [2]string{"step a.7", "failed"}, stepFact(client.ChainRunStep{Name: "a", Status: "failed", Element: new(int32(7))}))
}
