package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAnswer bounds the part of a response that is read, in bytes. Pages of endpoints with the
// longest bodies can be longer.
const maxAnswer = 32 << 20

// Doer sends a request to the API. The request has a path without a host, and no key yet.
type Doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// call carries out a call of the tool.
func (t tool) call(ctx context.Context, api Doer, raw json.RawMessage) (*sdk.CallToolResult, error) {
	request, err := t.request(ctx, raw)
	if err != nil {
		return failed(err.Error()), nil // The agent gets the message of its own mistake.
	}
	answer, err := api.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the API for %s: %w", t.described.Name, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer to %s: %w", t.described.Name, err)
	}
	if len(body) > maxAnswer {
		return failed(fmt.Sprintf("the answer to %s is longer than %d MiB, and a part of it would tell nothing; ask for less of it, by limit or fields", t.described.Name, maxAnswer>>20)), nil
	}
	return resultOf(answer.StatusCode, body), nil
}

// resultOf returns an answer of the API as the result of a call. A problem document is a failed
// call that says why.
func resultOf(status int, body []byte) *sdk.CallToolResult {
	if len(body) == 0 {
		body = []byte(`{"status":` + strconv.Itoa(status) + `}`)
	}
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(body)}}, IsError: status >= http.StatusBadRequest}
	var object map[string]any
	if json.Unmarshal(body, &object) == nil {
		r.StructuredContent = json.RawMessage(body)
	}
	return r
}

// failed returns the result of a call that was not made.
func failed(why string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: why}}, IsError: true}
}

// request returns the API request of a tool call. The API validates the values; this function
// decides their places. Where that cannot be, nothing is asked, and everything is named that can be
// judged without asking.
func (t tool) request(ctx context.Context, raw json.RawMessage) (*http.Request, error) {
	arguments := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &arguments); err != nil {
			return nil, fmt.Errorf("the arguments of %s must be one JSON object: %w", t.described.Name, err)
		}
	}
	target, header, faults := t.place(arguments)
	body := arguments[bodyArgument]
	if t.bodied && len(body) == 0 {
		faults = append(faults, fmt.Sprintf("%s needs the argument %s", t.described.Name, bodyArgument))
	}
	if unknown := t.unknown(arguments); len(unknown) > 0 {
		faults = append(faults, fmt.Sprintf("%s does not know the arguments %s", t.described.Name, strings.Join(unknown, ", ")))
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(append(faults, t.judge(arguments)...), "\n"))
	}
	return t.build(ctx, target, header, body)
}

// unknown returns the arguments that the tool does not have. To one without a body that is unknown
// like anything else.
func (t tool) unknown(arguments map[string]json.RawMessage) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		known := name == bodyArgument && t.media != "" || slices.ContainsFunc(t.parameters, func(p parameter) bool { return p.argument == name })
		if !known {
			names = append(names, name)
		}
	}
	return names
}

// place puts the arguments that are parameters where they go, and names those that cannot be put
// there.
func (t tool) place(arguments map[string]json.RawMessage) (target string, header http.Header, faults []string) {
	path, query, header := t.route, url.Values{}, http.Header{}
	for _, p := range t.parameters {
		values, err := texts(p.argument, arguments[p.argument])
		switch {
		case err != nil:
			faults = append(faults, err.Error())
		case p.in == "path" && len(values) != 1:
			faults = append(faults, fmt.Sprintf("%s needs the argument %s", t.described.Name, p.argument))
		case p.in == "path" && elsewhere(values[0]):
			faults = append(faults, fmt.Sprintf("the argument %s of %s must be an id, a key or a name, without a slash: %q is none", p.argument, t.described.Name, values[0]))
		case p.in == "path":
			path = strings.ReplaceAll(path, "{"+p.name+"}", url.PathEscape(values[0]))
		case p.in == "query" && len(values) > 0:
			query[p.name] = values
		case p.in == "header" && len(values) > 0:
			header[http.CanonicalHeaderKey(p.name)] = values
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, header, faults
}

// elsewhere reports whether a part of a path leads to another route than that of the tool. Servers
// and proxies resolve such parts, also where they are escaped.
func elsewhere(part string) bool {
	return part == "" || part == "." || part == ".." || strings.Contains(part, "/")
}

func (t tool) build(ctx context.Context, target string, header http.Header, body json.RawMessage) (*http.Request, error) {
	content := io.Reader(http.NoBody)
	if t.media != "" && len(body) > 0 {
		header.Set("Content-Type", t.media)
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, t.method, target, content)
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s make no request: %w", t.described.Name, err)
	}
	r.Header = header
	r.Header.Set("Accept", "application/json, application/problem+json")
	return r, nil
}

// texts returns an argument as a parameter has it: none where it is absent or null, several for a
// list.
func texts(name string, raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading the argument %s: %w", name, err)
	}
	list, many := value.([]any)
	if !many {
		list = []any{value}
	}
	var out []string
	for _, item := range list {
		switch v := item.(type) {
		case nil:
		case string:
			out = append(out, v)
		case json.Number:
			out = append(out, v.String())
		case bool:
			out = append(out, strconv.FormatBool(v))
		default:
			return nil, fmt.Errorf("the argument %s must be a string, a number, true or false, or a list of them", name)
		}
	}
	return out, nil
}
