package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"rubato/client"
)

// endpointsEditCmds are the commands of `rubato endpoints` that change an endpoint.
type endpointsEditCmds struct {
	Edit          endpointsEditCmd          `cmd:"" help:"Change some fields of an endpoint. For example: rubato endpoints edit shop --set timeoutMs=5000"`
	Put           endpointsPutCmd           `cmd:"" help:"Create or replace the endpoint with a key from a JSON file."`
	Noise         endpointsNoiseCmd         `cmd:"" help:"Print the noise that was found in the answers of an endpoint, or judge a finding."`
	ResetFailures endpointsResetFailuresCmd `cmd:"" help:"Reset the failure count and the backoff of an endpoint."`
}

// endpointsEditCmd is `rubato endpoints edit`. It has no --url for the server, because --url sets
// the field of the endpoint.
type endpointsEditCmd struct {
	fieldFlags

	Endpoint  string   `arg:"" help:"Endpoint id (ep_...) or key."`
	File      string   `short:"f" placeholder:"FILE" help:"JSON file with the changed fields, or - for standard input; null clears a field. Excludes --set and the flags of fields."`
	Set       []string `placeholder:"FIELD=VALUE" sep:"none" help:"Change a field by its API name, such as timeoutMs=5000; key=null clears the key. May be repeated."`
	IfVersion *int64   `placeholder:"N" help:"Fail unless the endpoint has this version."`
}

// Help describes the syntax of fields.
func (*endpointsEditCmd) Help() string {
	return `Example: rubato endpoints edit shop --name 'Shop health' --interval 30s --label team=shop
With --set, a value that is no JSON is a text: --set baselineCron=null --set 'auth={"type":"bearer","token":"{{secret \"shop\"}}"}'
Fields that are not named stay, and so do other labels, headers and parameters. --cron replaces the interval, and --interval the cron.
A file may hold what endpoints get -o json prints: fields that only the server sets are left out.`
}

// Run changes some fields of an endpoint.
func (cmd *endpointsEditCmd) Run(ctx context.Context, s *session) error {
	body, err := cmd.body(s)
	if err != nil {
		return err
	}
	params := &client.PatchEndpointParams{IfMatch: versionTag(cmd.IfVersion)}
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.PatchEndpointWithBodyWithResponse(ctx, id, params, "application/merge-patch+json", bytes.NewReader(body)))
	})
}

// body returns the changed fields in the format of the API.
func (cmd *endpointsEditCmd) body(s *session) (json.RawMessage, error) {
	fields, err := cmd.fields()
	if err != nil {
		return nil, err
	}
	for _, text := range cmd.Set {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return nil, usageError{fmt.Sprintf("%q must have the form NAME=VALUE", text)}
		}
		if _, twice := fields[name]; twice {
			return nil, usageError{fmt.Sprintf("%q is given twice; keep one", name)}
		}
		if json.Valid([]byte(value)) {
			fields[name] = json.RawMessage(value)
		} else {
			fields[name] = value
		}
	}
	if cmd.File == "" && len(fields) == 0 {
		return nil, usageError{"no change given: use the flag of a field, --set FIELD=VALUE or --file"}
	}
	replaceBaseline(fields)
	body, err := s.objectFrom("fields", cmd.File, fields)
	if err != nil {
		return nil, err
	}
	return editable(body)
}

// replaceBaseline clears the other baseline if one is given, because an endpoint has exactly one.
func replaceBaseline(fields map[string]any) {
	const cron, interval = "baselineCron", "baselineIntervalMs"
	_, byCron := fields[cron]
	_, byInterval := fields[interval]
	switch {
	case byCron && !byInterval && set(fields[cron]):
		fields[interval] = nil
	case byInterval && !byCron && set(fields[interval]):
		fields[cron] = nil
	}
}

// set reports whether the value of a field sets it. An empty text and null clear it.
func set(value any) bool {
	raw, isRaw := value.(json.RawMessage)
	return value != "" && (!isRaw || string(raw) != "null")
}

// endpointsPutCmd is `rubato endpoints put`.
type endpointsPutCmd struct {
	serverFlag

	Key  string `arg:"" help:"Your own unique name for the endpoint."`
	File string `short:"f" required:"" placeholder:"FILE" help:"JSON file with the whole endpoint, or - for standard input."`
	New  bool   `xor:"when" help:"Fail if an endpoint has this key already."`
	Old  bool   `xor:"when" help:"Fail unless an endpoint has this key."`
}

// Help returns an example.
func (*endpointsPutCmd) Help() string {
	return `Example: echo '{"name":"Shop health","url":"https://shop.example/health","baselineIntervalMs":30000}' | rubato endpoints put shop -f -`
}

// Run creates or replaces the endpoint of a key.
func (cmd *endpointsPutCmd) Run(ctx context.Context, s *session) error {
	body, err := s.readEndpoint(cmd.File)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	params := &client.PutEndpointByKeyParams{}
	switch {
	case cmd.New:
		params.IfNoneMatch = new("*")
	case cmd.Old:
		params.IfMatch = new("*")
	}
	raw, err := r.read(r.api.PutEndpointByKeyWithBodyWithResponse(ctx, cmd.Key, params, "application/json", bytes.NewReader(body)))
	if problem, is := errors.AsType[*client.Problem](err); is && cmd.Old && problem.Code == "version_mismatch" {
		problem.Detail = "no endpoint has this key; omit --old to create one"
	}
	if err != nil {
		return err
	}
	return s.printEndpoint(raw)
}

type endpointsResetFailuresCmd struct{ endpointArg }

// Run resets the failure count and the backoff of an endpoint.
func (cmd *endpointsResetFailuresCmd) Run(ctx context.Context, s *session) error {
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.ResetFailuresWithResponse(ctx, id))
	})
}

// versionTag returns the entity tag of a version, or nil without a version.
func versionTag(version *int64) *string {
	if version == nil {
		return nil
	}
	return new(strconv.Quote(strconv.FormatInt(*version, 10)))
}
