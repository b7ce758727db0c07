// Package api is the server's half of the REST contract: its types, its routes and what a handler of each operation takes and
// answers. Everything but this comment is generated from api/openapi.yaml.
package api

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../../../api/openapi.yaml
