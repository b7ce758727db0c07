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

// endpointsEditCmds are the commands of `rubato endpoints` that change one.
type endpointsEditCmds struct {
	Edit          endpointsEditCmd          `cmd:"" help:"Change some fields of an endpoint. For example: rubato endpoints edit shop --set timeoutMs=5000"`
	Put           endpointsPutCmd           `cmd:"" help:"Make the endpoint of a key as a JSON file describes it, new or not."`
	ResetFailures endpointsResetFailuresCmd `cmd:"" help:"Forget the failures in a row of an endpoint, and with them its backoff."`
}

// endpointsEditCmd is `rubato endpoints edit`.
type endpointsEditCmd struct {
	endpointArg

	File      string   `short:"f" xor:"what" placeholder:"FILE" help:"Read the changed fields from a JSON file, or from the input with -; null clears a field."`
	Set       []string `xor:"what" placeholder:"FIELD=VALUE" sep:"none" help:"Change one field, such as timeoutMs=5000 or key=null; may be repeated."`
	IfVersion *int64   `placeholder:"N" help:"Only if the endpoint still has this version."`
}

// Help shows how fields are written.
func (*endpointsEditCmd) Help() string {
	return `Example: rubato endpoints edit shop --set baselineIntervalMs=30000 --set 'labels={"team":"shop"}' --set name='Shop health'
A value that is no JSON is a text. Fields that are not named stay.`
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

func (cmd *endpointsEditCmd) body(s *session) (json.RawMessage, error) {
	if cmd.File != "" {
		return s.readObject(cmd.File)
	}
	if len(cmd.Set) == 0 {
		return nil, usageError{"say what to change: by --set FIELD=VALUE or by --file"}
	}
	fields := map[string]any{}
	for _, text := range cmd.Set {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return nil, usageError{fmt.Sprintf("%q has no \"=\" between its name and its value", text)}
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
	return json.Marshal(fields)
}

// readObject returns the JSON that a file holds.
func (s *session) readObject(name string) (json.RawMessage, error) {
	text, err := s.readFile(name)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, usageError{name + " does not hold one JSON object"}
	}
	return bytes.TrimSpace(text), nil
}

// objectFrom returns the object to send: from a file, or made of what the flags set. It judges nothing that the server judges.
func (s *session) objectFrom(what, file string, flags map[string]any) (json.RawMessage, error) {
	switch {
	case file == "":
		return json.Marshal(flags)
	case len(flags) > 0:
		return nil, usageError{"give the " + what + " by --file or by flags, not by both"}
	}
	return s.readObject(file)
}

// endpointsPutCmd is `rubato endpoints put`.
type endpointsPutCmd struct {
	serverFlag

	Key  string `arg:"" help:"Your own name for the endpoint, unique."`
	File string `short:"f" required:"" placeholder:"FILE" help:"Read the whole endpoint from a JSON file, or from the input with -."`
	New  bool   `xor:"when" help:"Only if there is no endpoint with this key yet."`
	Old  bool   `xor:"when" help:"Only if there is one."`
}

// Help shows an example.
func (*endpointsPutCmd) Help() string {
	return `Example: echo '{"name":"Shop health","url":"https://shop.example/health","baselineIntervalMs":30000}' | rubato endpoints put shop -f -`
}

// Run makes the endpoint of a key as the file describes it.
func (cmd *endpointsPutCmd) Run(ctx context.Context, s *session) error {
	body, err := s.readObject(cmd.File)
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
		problem.Detail = "no endpoint has this key; leave --old out to create one"
	}
	if err != nil {
		return err
	}
	return s.printEndpoint(raw)
}

type endpointsResetFailuresCmd struct{ endpointArg }

// Run forgets the failures of an endpoint.
func (cmd *endpointsResetFailuresCmd) Run(ctx context.Context, s *session) error {
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.ResetFailuresWithResponse(ctx, id))
	})
}

type keysGetCmd struct {
	serverFlag

	Key string `arg:"" help:"The id of the key (key_...)."`
}

// Run prints a key without its secret.
func (cmd *keysGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetKeyWithResponse(ctx, cmd.Key))
	if err != nil {
		return err
	}
	if s.json {
		return s.print(raw)
	}
	var k client.Key
	if err := decode(raw, &k); err != nil {
		return err
	}
	return s.facts([][2]string{
		{"id", k.ID},
		{"name", k.Name},
		{"scopes", scopes(k.Scopes)},
		{"state", string(k.State)},
		{"prefix", k.Prefix},
		{"last used", instant(k.LastUsedAt)},
		{"expires", instant(k.ExpiresAt)},
	})
}

// explainRemotely lets the server decide: what `rubato explain` does by itself, by POST /v1/explain.
func (s *session) explainRemotely(ctx context.Context) (refused int, err error) {
	r, err := s.connect()
	if err != nil {
		return 0, err
	}
	lines := newLines(s.stdin)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		answer, err := r.read(r.api.ExplainWithBodyWithResponse(ctx, "application/json", bytes.NewReader(lines.Bytes())))
		if problem, is := errors.AsType[*client.Problem](err); is && problem.Status < 500 {
			refused++
			answer, err = json.Marshal(map[string]any{"error": problem, "line": n})
		}
		if err != nil {
			return refused, err
		}
		if err := s.printLine(answer); err != nil {
			return refused, err
		}
	}
	if err := lines.Err(); err != nil {
		return refused, fmt.Errorf("reading what to explain: %w", err)
	}
	return refused, nil
}

// versionTag returns the entity tag of a version, nil where none is named.
func versionTag(version *int64) *string {
	if version == nil {
		return nil
	}
	return new(strconv.Quote(strconv.FormatInt(*version, 10)))
}
