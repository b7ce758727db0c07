package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"rubato/api"
	"rubato/internal/auth"
)

// operation is what serving needs to know of one operation of the contract.
type operation struct {
	id       string
	method   string
	route    string // as the contract writes it: /v1/endpoints/{id}
	scope    auth.Scope
	public   bool // needs no key
	once     bool // takes an Idempotency-Key
	secret   bool // answers with a secret
	streams  bool // its body or its answer is a stream
	body     *openapi3.Schema
	required bool // the body must be there
	types    []string
	query    map[string]*openapi3.Parameter
	headers  map[string]*openapi3.Schema // that are parameters
	numbers  map[string]*openapi3.Schema // in the path
	lines    bool                        // the body is lines, which the handler reads
	item     *openapi3.Schema            // schema of a list item; nil if the response is not a list
}

// rules is the contract as it is enforced.
type rules struct {
	operations map[string]*operation // by method and the router's pattern, such as "GET /v1/endpoints/:id"
	explain    *openapi3.Schema
	spec       *openapi3.Schema
	importLine *openapi3.Schema
	endpoint   *openapi3.Schema
	run        *openapi3.Schema
}

// contract returns the rules of the embedded contract, parsed once. A contract that cannot be
// parsed is a fault of the build, which every test would meet, so it panics.
//
//nolint:gochecknoglobals // Computed once from the embedded contract, then read-only.
var contract = sync.OnceValue(func() *rules {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		panic(fmt.Errorf("parsing the contract: %w", err))
	}
	// Only a test looks at the examples: that takes ten times as long as everything else here, and
	// every server would wait for it.
	if err := doc.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		panic(fmt.Errorf("validating the contract: %w", err))
	}
	schemas := doc.Components.Schemas
	r := &rules{
		operations: map[string]*operation{},
		explain:    schemas["ExplainInput"].Value,
		spec:       schemas["EndpointSpec"].Value,
		importLine: schemas["ImportLine"].Value,
		endpoint:   schemas["Endpoint"].Value,
		run:        schemas["Run"].Value,
	}
	for route, item := range doc.Paths.Map() {
		for method, described := range item.Operations() {
			op := newOperation(doc, described)
			op.method, op.route = method, route
			op.add(item.Parameters)
			op.add(described.Parameters)
			op.once = described.Parameters.GetByInAndName(openapi3.ParameterInHeader, idempotencyKey) != nil
			r.operations[method+" "+pattern(route)] = op
		}
	}
	return r
})

func newOperation(doc *openapi3.T, described *openapi3.Operation) *operation {
	op := &operation{
		id:      described.OperationID,
		query:   map[string]*openapi3.Parameter{},
		headers: map[string]*openapi3.Schema{},
		numbers: map[string]*openapi3.Schema{},
	}
	security := doc.Security
	if described.Security != nil {
		security = *described.Security
	}
	if op.public = len(security) == 0; !op.public {
		op.scope = auth.Scope(security[0]["bearer"][0])
	}
	if described.RequestBody != nil {
		op.required = described.RequestBody.Value.Required
		for media, content := range described.RequestBody.Value.Content {
			op.types = append(op.types, media)
			op.body = content.Schema.Value
			op.lines = media == lineMedia
			op.streams = op.streams || isStream(media)
		}
	}
	for _, response := range described.Responses.Map() {
		for media, content := range response.Value.Content {
			op.streams = op.streams || isStream(media)
			if content.Schema == nil {
				continue
			}
			members := content.Schema.Value.Properties
			op.secret = op.secret || members["secret"] != nil
			if items := members["items"]; items != nil && items.Value.Items != nil {
				op.item = items.Value.Items.Value
			}
		}
	}
	return op
}

// reads reports whether a body is read before the operation begins. It means nothing to GET and
// DELETE, and lines are read as they come.
func (op *operation) reads() bool {
	return op.method != http.MethodGet && op.method != http.MethodDelete && !op.lines
}

// isStream reports whether a media type is a stream without a fixed end.
func isStream(media string) bool {
	return media == "text/event-stream" || media == "application/x-ndjson"
}

func (op *operation) add(parameters openapi3.Parameters) {
	for _, p := range parameters {
		switch p.Value.In {
		case openapi3.ParameterInQuery:
			op.query[p.Value.Name] = p.Value
		case openapi3.ParameterInHeader:
			op.headers[p.Value.Name] = p.Value.Schema.Value
		case openapi3.ParameterInPath:
			if p.Value.Schema.Value.Type.Is(openapi3.TypeInteger) {
				op.numbers[p.Value.Name] = p.Value.Schema.Value
			}
		}
	}
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// pattern returns the router's form of a route, in which a colon of its own is escaped.
func pattern(route string) string {
	return placeholder.ReplaceAllString(strings.ReplaceAll(route, ":", `\:`), ":$1")
}
