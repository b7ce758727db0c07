package mcp

import (
	"context"
	"io/fs"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rubato/api"
	"rubato/docs"
)

const (
	contractURI = "rubato://openapi.yaml"
	docsURI     = "rubato://docs/"
)

// addResources offers the contract and the pages of the documentation.
func addResources(s *sdk.Server) {
	s.AddResource(
		&sdk.Resource{
			URI:      contractURI,
			Name:     "openapi.yaml",
			Title:    "The contract of the REST API",
			MIMEType: "application/yaml",
		},
		text(api.OpenAPI()),
	)
	pages, err := docs.Pages()
	if err != nil {
		panic(err) // They are in the binary.
	}
	for _, p := range pages {
		content, err := fs.ReadFile(docs.FS, p)
		if err != nil {
			panic(err)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(content), "# "), "\n")
		s.AddResource(&sdk.Resource{
			URI:      docsURI + p,
			Name:     p,
			Title:    title,
			MIMEType: "text/markdown",
		}, text(string(content)))
	}
}

// text returns a handler that answers with a text.
func text(content string) sdk.ResourceHandler {
	return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: content}}}, nil
	}
}
