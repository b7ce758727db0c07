package mcp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rubato/api"
	"rubato/internal/auth"
)

// tool is one operation of the contract as agents call it.
type tool struct {
	described  *sdk.Tool
	method     string
	route      string // as the contract writes it: /v1/endpoints/{id}
	scope      auth.Scope
	parameters []parameter
	media      string // of the body; empty: it has none
	bodied     bool   // the body must be there
	body       *openapi3.Schema
}

// parameter is an argument that is not the body.
type parameter struct {
	argument string // how agents name it
	name     string // how the contract names it
	in       string // path, query or header
	schema   *openapi3.Schema
}

// bodyArgument is the argument that holds the body of a request.
const (
	bodyArgument    = "body"
	bodyDescription = "What the request says, as an object. Everything that is not known is refused, and every bad field is named."
)

// tools returns the tools of the contract, by name. An invalid contract is a build error, which
// every test would hit, so it panics.
//
//nolint:gochecknoglobals // Computed once from the embedded contract, then read-only.
var tools = sync.OnceValue(func() []tool {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		panic(fmt.Errorf("parsing the contract: %w", err))
	}
	var list []tool
	for route, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if t, offered := toolOf(doc, item, op); offered {
				t.method, t.route = method, route
				t.described.Description = described(op, method, route)
				list = append(list, t)
			}
		}
	}
	slices.SortFunc(list, func(a, b tool) int { return strings.Compare(a.described.Name, b.described.Name) })
	return list
})

// toolOf makes a tool of an operation, where it is one question with one answer and needs a key.
func toolOf(doc *openapi3.T, item *openapi3.PathItem, op *openapi3.Operation) (t tool, offered bool) {
	security := doc.Security
	if op.Security != nil {
		security = *op.Security
	}
	if len(security) == 0 || streams(op) {
		return tool{}, false
	}
	t.scope = auth.Scope(security[0]["bearer"][0])
	input := newSchema(doc)
	for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
		t.parameters = append(t.parameters, parameter{
			argument: argumentOf(p.Value.Name),
			name:     p.Value.Name,
			in:       p.Value.In,
			schema:   p.Value.Schema.Value,
		})
		input.add(argument{
			name:        argumentOf(p.Value.Name),
			schema:      p.Value.Schema,
			description: p.Value.Description,
			required:    p.Value.Required,
			examples:    examplesOf(p.Value.Example, p.Value.Examples),
		})
	}
	if op.RequestBody != nil {
		media, examples := mediaOf(op.RequestBody.Value.Content)
		t.media, t.bodied = media, op.RequestBody.Value.Required
		t.body = op.RequestBody.Value.Content[media].Schema.Value
		input.add(argument{
			name:        bodyArgument,
			schema:      op.RequestBody.Value.Content[media].Schema,
			required:    t.bodied,
			examples:    examples,
			description: cmp.Or(op.RequestBody.Value.Description, bodyDescription),
		})
	}
	t.described = &sdk.Tool{
		Name: snake(op.OperationID), Title: op.Summary,
		InputSchema: input.object(), Annotations: hints(item, op, t.scope),
	}
	return t, true
}

// mediaOf returns the media type in which a tool sends a body, and examples of one. Of several it
// is the first by name that has any.
func mediaOf(content openapi3.Content) (media string, examples []any) {
	names := slices.Sorted(maps.Keys(content))
	for _, name := range names {
		if examples = examplesOf(content[name].Example, content[name].Examples); len(examples) > 0 {
			return name, examples
		}
	}
	return names[0], nil
}

// hints are annotations about the effects of a call, so that clients can ask their user first.
func hints(item *openapi3.PathItem, op *openapi3.Operation, scope auth.Scope) *sdk.ToolAnnotations {
	deletes := item.Delete == op
	return &sdk.ToolAnnotations{
		Title:           op.Summary,
		ReadOnlyHint:    readOnly(item, op, scope),
		DestructiveHint: &deletes,
		IdempotentHint:  deletes || item.Put == op,
		OpenWorldHint:   new(slices.Contains(outward(), op.OperationID)),
	}
}

// outward names the operations that send a request to an external system immediately.
func outward() []string {
	return []string{"testEndpoint", "testRequest", "testNoticeRule", "runEndpoint", "rerunRun", "retryNotice"}
}

// described returns the description of a tool. The last line names the route, by which documents
// and errors speak of it.
func described(op *openapi3.Operation, method, route string) string {
	text := sentence(op.Summary)
	if op.Description != "" {
		text += "\n\n" + strings.TrimSpace(op.Description)
	}
	return text + "\n\nThis is `" + method + " " + route + "` of the API."
}

// sentence ends a text.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// examplesOf returns the examples that the contract gives of a value.
func examplesOf(one any, named openapi3.Examples) (list []any) {
	if one != nil {
		list = append(list, one)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		list = append(list, named[name].Value.Value)
	}
	return list
}

// readOnly reports whether an operation changes nothing: it is a GET, or asks for no more than the
// scope read.
func readOnly(item *openapi3.PathItem, op *openapi3.Operation, scope auth.Scope) bool {
	return item.Get == op || scope == auth.Read
}

// streams reports whether a body or an answer of an operation is a stream without a fixed end.
func streams(op *openapi3.Operation) bool {
	var content []openapi3.Content
	if op.RequestBody != nil {
		content = append(content, op.RequestBody.Value.Content)
	}
	for _, response := range op.Responses.Map() {
		content = append(content, response.Value.Content)
	}
	return slices.ContainsFunc(content, func(c openapi3.Content) bool {
		return c["text/event-stream"] != nil || c["application/x-ndjson"] != nil
	})
}

// argumentOf returns how agents name a parameter: If-Match becomes ifMatch.
func argumentOf(name string) string {
	words := strings.Split(name, "-")
	if len(words) == 1 {
		return name
	}
	words[0] = strings.ToLower(words[0])
	return strings.Join(words, "")
}

// snake returns the name of an operation as tools are named: createEndpoint becomes
// create_endpoint.
func snake(id string) string {
	var b strings.Builder
	for _, r := range id {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
