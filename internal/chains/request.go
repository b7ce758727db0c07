package chains

import (
	"fmt"
	"maps"
	"slices"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/template"
)

// Bounds of a filled request, in bytes. They equal those of the requests of endpoints.
const (
	maxURLBytes    = 2048
	maxHeaderBytes = 8 << 10
	maxBodyBytes   = 256 << 10
)

// requestTemplate is a parsed request. It is immutable.
type requestTemplate struct {
	request *Request
	// parts holds the templates by their fields. Literal fields have none.
	parts map[string]*template.Template
}

// parseRequest parses a request whose templates may use the given names. field is its place.
func parseRequest(field string, r *Request, known *template.Names) (*requestTemplate, []errs.Field) {
	t := &requestTemplate{request: r, parts: map[string]*template.Template{}}
	if r == nil {
		return t, nil
	}
	var bad []errs.Field
	parse := func(name, text string, of template.Field) {
		parsed, faults := template.Parse(text, template.Options{Field: of, Chain: known})
		for _, fault := range faults {
			bad = append(bad, errs.Field{
				Field:   field + "." + name,
				Code:    "template_invalid",
				Message: "at " + fault.Error(),
			})
		}
		if parsed != nil {
			t.parts[name] = parsed
		}
	}
	parse("url", r.URL, template.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		parse("query."+name, r.Query[name], template.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		parse("headers."+name, r.Headers[name], template.Header)
	}
	if r.Body != nil {
		parse("body", *r.Body, r.spec().BodyField())
	}
	return t, bad
}

// spec returns the request as that of an endpoint.
func (r *Request) spec() *endpoints.Spec {
	s := &endpoints.Spec{
		URL:     r.URL,
		Method:  r.Method,
		Headers: r.Headers,
		Query:   r.Query,
	}
	if r.Body != nil {
		s.Body = *r.Body
	}
	return s
}

// fill returns the request with the values of a chain. It may still hold templates for the values of
// the run that sends it.
func (t *requestTemplate) fill(values map[string]any) (r Request, err error) {
	if t.request == nil {
		return r, nil
	}
	fill := func(name, text string, limit int) string {
		parsed := t.parts[name]
		if parsed == nil || err != nil {
			return text
		}
		filled, fault := parsed.Fill(values, limit)
		if fault != nil {
			err = fmt.Errorf("%s: %w", name, fault)
		}
		return filled
	}
	r = *t.request
	r.URL = fill("url", r.URL, maxURLBytes)
	r.Query, r.Headers = maps.Clone(r.Query), maps.Clone(r.Headers)
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		r.Query[name] = fill("query."+name, r.Query[name], maxURLBytes)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		r.Headers[name] = fill("headers."+name, r.Headers[name], maxHeaderBytes)
	}
	if r.Body != nil {
		r.Body = new(fill("body", *r.Body, maxBodyBytes))
	}
	return r, err
}
