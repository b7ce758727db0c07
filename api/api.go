// Package api holds the REST contract. The contract is authoritative: the server's types and routes
// and the Go client are generated from it, and requests are checked against it while they are
// served.
package api

import _ "embed"

//go:embed openapi.yaml
var contract string

// OpenAPI returns the contract, an OpenAPI 3.1 document in YAML.
func OpenAPI() string { return contract }
