// Package api is the server side of the REST contract: its types, its routes, and the interface of
// the handlers. Everything but this comment is generated from api/openapi.yaml.
package api

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../../../api/openapi.yaml
