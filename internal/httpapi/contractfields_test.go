package httpapi_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// TestTheContractHasEveryFieldOfAnEndpoint compares the schemas in the contract with the fields of
// the struct.
func TestTheContractHasEveryFieldOfAnEndpoint(t *testing.T) {
	t.Parallel()
	var fields []string
	for f := range reflect.TypeFor[endpoints.Spec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	schemas := loadContract().Components.Schemas
	for name, beside := range map[string][]string{"EndpointSpec": nil, "EndpointPatch": nil, "ImportLine": {"id"}} {
		var found []string
		for property := range schemas[name].Value.Properties {
			found = append(found, property)
		}
		require.ElementsMatch(t, append(fields, beside...), found, name)
	}
	for _, name := range fields {
		require.Contains(t, schemas["Endpoint"].Value.Properties, name, "Endpoint")
	}
}
