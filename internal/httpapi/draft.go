package httpapi

import (
	"fmt"

	"rubato/internal/endpoints"
)

// ReadEndpoint reads the JSON of an endpoint and refuses the same as POST /v1/endpoints, except for
// URLs and secrets, which only a server can check. The error is an [errs.Error]: Malformed if the
// input cannot be read, Invalid if it breaks rules.
func ReadEndpoint(body []byte) (endpoints.Spec, error) {
	in, err := readInput(body, contract().spec)
	if err != nil {
		return endpoints.Spec{}, err
	}
	spec, err := endpoints.ReadSpec(in.value)
	if err != nil {
		return endpoints.Spec{}, fmt.Errorf("reading an endpoint: %w", err)
	}
	spec = spec.Normalize()
	return spec, in.refuse(endpoints.NewValidator(anyTarget{}).Check(endpoints.ID{}, spec))
}
