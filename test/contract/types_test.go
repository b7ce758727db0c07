package contract

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"rubato/api"
)

// A schema of any type lists all types, because readers of the contract, such as its page, take a
// schema without a type for a mistake.
func TestEverySchemaHasAType(t *testing.T) {
	t.Parallel()
	seen := 0
	var look func(place string, ref *openapi3.SchemaRef)
	look = func(place string, ref *openapi3.SchemaRef) {
		if ref == nil || ref.Ref != "" {
			return
		}
		seen++
		schema := ref.Value
		require.True(t, schema.Type != nil || len(schema.OneOf)+len(schema.AnyOf)+len(schema.AllOf) > 0, "%s has no type", place)
		for name, property := range schema.Properties {
			look(place+"."+name, property)
		}
		look(place+"[]", schema.Items)
	}
	for name, ref := range contract().Components.Schemas {
		look(name, ref)
	}
	for _, o := range operations() {
		for _, p := range o.Parameters {
			look(o.OperationID+" "+p.Value.Name, p.Value.Schema)
		}
	}
	require.Greater(t, seen, 500)
}

// Servers leave the examples out when they check the contract at their start.
func TestTheContractAndItsExamplesAreValid(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
}
