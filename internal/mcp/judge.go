package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// judge validates the arguments of a call against the contract, by name. It calls no API, so that
// it changes nothing; errors beyond the contract are found once these are corrected.
func (t tool) judge(arguments map[string]json.RawMessage) []string {
	var faults []string
	for _, p := range t.parameters {
		values, err := texts(p.argument, arguments[p.argument])
		if err != nil || len(values) == 0 || p.in == "path" { // It is said already, or there is none.
			continue
		}
		faults = append(faults, against(p.schema, p.argument, typed(p.schema, values))...)
	}
	if body, given := arguments[bodyArgument]; given && t.body != nil {
		faults = append(faults, against(t.body, bodyArgument, decoded(body))...)
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}

// typed returns texts as the values that a parameter takes.
func typed(schema *openapi3.Schema, values []string) any {
	if schema.Type.Is(openapi3.TypeArray) {
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = typed(schema.Items.Value, []string{v})
		}
		return list
	}
	if schema.Type.Includes(openapi3.TypeString) || len(values) > 1 {
		return strings.Join(values, ",")
	}
	var value any
	if json.Unmarshal([]byte(values[0]), &value) != nil {
		return values[0]
	}
	return value
}

// decoded returns a value of an argument. It was part of a JSON object.
func decoded(raw json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value)
	return value
}

// against returns the errors of a value against a schema, each with its path.
func against(schema *openapi3.Schema, name string, value any) []string {
	return worded(name, schema.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsRequest()))
}

// worded words an error of a schema by the paths of the values.
func worded(name string, err error) []string {
	if err == nil {
		return nil
	}
	if several, ok := errors.AsType[openapi3.MultiError](err); ok {
		var faults []string
		for _, one := range several {
			faults = append(faults, worded(name, one)...)
		}
		return faults
	}
	fault, ok := errors.AsType[*openapi3.SchemaError](err)
	if !ok {
		return []string{name + ": " + err.Error()}
	}
	if fault.Schema.Type.Is(openapi3.TypeNull) { // A nullable value has another type too, whose error is more useful.
		return nil
	}
	return []string{fmt.Sprintf("%s: %s", strings.Join(append([]string{name}, fault.JSONPointer()...), "."), fault.Reason)}
}
