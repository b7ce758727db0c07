package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"rubato/client"
)

// errTestFailed sets the exit code of a test with a failed request. The result is printed before.
var errTestFailed = errors.New("the request did not succeed")

// endpointsTestCmd is `rubato endpoints test`.
type endpointsTestCmd struct{ endpointArg }

// testCmd is `rubato test`.
type testCmd struct {
	serverFlag

	File string `short:"f" required:"" placeholder:"FILE" help:"JSON file with the endpoint, or - for standard input."`
}

// Run sends the request of an endpoint once and prints the response.
func (cmd *endpointsTestCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	return s.printTest(r.read(r.api.TestEndpointWithResponse(ctx, id)))
}

// Run sends the request of an unregistered endpoint once and prints the response.
func (cmd *testCmd) Run(ctx context.Context, s *session) error {
	body, err := s.readEndpoint(cmd.File)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	return s.printTest(r.read(r.api.TestRequestWithBodyWithResponse(ctx, "application/json", bytes.NewReader(body))))
}

// printTest prints the result of a test. It returns errTestFailed if the request did not succeed.
func (s *session) printTest(raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	var t client.TestResult
	if err := decode(raw, &t); err != nil {
		return err
	}
	if s.json {
		err = s.print(raw)
	} else {
		err = s.facts(testFacts(t))
	}
	if err == nil && t.Status != client.RunStatusSucceeded {
		return errTestFailed
	}
	return err
}

// testFacts returns the request and the response of a test as rows.
func testFacts(t client.TestResult) [][2]string {
	facts := [][2]string{
		{"status", string(t.Status) + " " + t.ReasonCode},
		{"answered", strings.TrimSpace(statusText(t.StatusCode) + " " + text(t.ContentType))},
		{"took", took(&t.DurationMs)},
		{"error", text(t.Error)},
		{"asks to stop", text(t.Stop)},
		{"asks to wait until", instant(t.RetryAfter)},
	}
	if sent := t.Request; sent != nil {
		facts = append(facts, [2]string{"sent", sent.Method + " " + sent.URL})
		facts = append(facts, headerFacts("sent header", sent.Headers)...)
		facts = append(facts, [2]string{"sent body", text(sent.Body)})
	}
	if t.Headers != nil {
		facts = append(facts, headerFacts("header", *t.Headers)...)
	}
	return append(facts, [2]string{"body", text(t.Body)})
}

func headerFacts(label string, header http.Header) [][2]string {
	var facts [][2]string
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			facts = append(facts, [2]string{label, name + ": " + value})
		}
	}
	return facts
}
