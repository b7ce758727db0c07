package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const (
	contractRef = "#/components/schemas/"
	schemaRef   = "#/$defs/"
)

// schema is the JSON Schema of a tool's arguments in the making. Schemas of the contract, which is
// OpenAPI 3.1, are JSON Schema already. Only referenced schemas are copied into defs.
type schema struct {
	doc        *openapi3.T
	properties map[string]any
	required   []string
	defs       map[string]any
}

func newSchema(doc *openapi3.T) *schema {
	return &schema{
		doc:        doc,
		properties: map[string]any{},
		defs:       map[string]any{},
	}
}

// argument is an argument of a tool.
type argument struct {
	name        string
	schema      *openapi3.SchemaRef
	description string
	required    bool
	examples    []any
}

// add adds an argument.
func (s *schema) add(a argument) {
	property := s.convert(a.schema)
	if m, ok := property.(map[string]any); ok {
		if a.description != "" {
			m["description"] = a.description
		}
		if len(a.examples) > 0 {
			m["examples"] = a.examples
		}
	}
	s.properties[a.name] = property
	if a.required {
		s.required = append(s.required, a.name)
	}
}

// object returns the schema of all arguments together.
func (s *schema) object() map[string]any {
	out := map[string]any{"type": "object", "properties": s.properties, "additionalProperties": false}
	if len(s.required) > 0 {
		slices.Sort(s.required)
		out["required"] = s.required
	}
	if len(s.defs) > 0 {
		out["$defs"] = s.defs
	}
	return out
}

// convert returns a schema of the contract as plain JSON, with its references pointing to
// definitions of our own, which it adds.
func (s *schema) convert(of *openapi3.SchemaRef) any {
	raw, err := json.Marshal(of)
	if err != nil {
		panic(fmt.Errorf("writing a schema of the contract: %w", err)) // It was read from JSON.
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		panic(fmt.Errorf("reading a schema of the contract: %w", err))
	}
	return s.redirect(plain)
}

// redirect changes the references in a value in place.
func (s *schema) redirect(value any) any {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "x-ui") // It is for people.
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, contractRef)
			s.define(name)
			v["$ref"] = schemaRef + name
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = s.redirect(v[key])
		}
	case []any:
		for i := range v {
			v[i] = s.redirect(v[i])
		}
	}
	return value
}

// define adds a schema of the contract to the definitions, once.
func (s *schema) define(name string) {
	if _, done := s.defs[name]; done {
		return
	}
	s.defs[name] = nil // Schemas may refer to themselves.
	s.defs[name] = s.convert(&openapi3.SchemaRef{Value: s.doc.Components.Schemas[name].Value})
}
