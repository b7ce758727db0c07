package chains

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/template"
)

// Bounds of a filled request, in bytes. They equal those of the requests of endpoints.
const (
	maxURLBytes    = 2048
	maxQueryBytes  = 2048
	maxHeaderBytes = 8 << 10
	maxBodyBytes   = 256 << 10
)

// requestTemplate is a parsed request. It is immutable.
type requestTemplate struct {
	request *Request
	// parts holds the templates by their fields. Literal fields have none.
	parts map[string]*template.Template
	// attempts is the default of MaxAttempts.
	attempts int
}

// isCall reports whether the request is that of a call.
func (r *Request) isCall() bool { return r != nil && r.URL != "" }

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
	if r.URL != "" {
		parse("url", r.URL, template.URL)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		parse("query."+name, r.Query[name], template.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		parse("headers."+name, r.Headers[name], template.Header)
	}
	if r.Body != nil {
		parse("body", *r.Body, (&endpoints.Spec{Headers: r.Headers, Body: *r.Body}).BodyField())
	}
	return t, bad
}

// fill returns the parts of the request with the values of a chain. They may still hold templates
// for the values of the run that sends them. call is the request of a call; nil: an endpoint sends
// the parts.
func (t *requestTemplate) fill(values map[string]any) (o endpoints.Override, call *endpoints.Spec, err error) {
	r := t.request
	if r == nil {
		return o, nil, nil
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
	o.Query, o.Headers = maps.Clone(r.Query), maps.Clone(r.Headers)
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		o.Query[name] = fill("query."+name, r.Query[name], maxQueryBytes)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		o.Headers[name] = fill("headers."+name, r.Headers[name], maxHeaderBytes)
	}
	if r.Body != nil {
		o.Body = new(fill("body", *r.Body, maxBodyBytes))
	}
	if r.isCall() {
		call = t.call(fill("url", r.URL, maxURLBytes), o)
	}
	return o, call, err
}

// call returns the request of a call with its filled parts.
func (t *requestTemplate) call(url string, parts endpoints.Override) *endpoints.Spec {
	r, s := t.request, calls.Defaults()
	s.Name, s.URL, s.Method = "chain step", url, cmp.Or(r.Method, s.Method)
	s.Headers, s.Query, s.Idempotent = parts.Headers, parts.Query, r.Idempotent
	s.Retry.MaxAttempts = cmp.Or(r.MaxAttempts, t.attempts)
	if parts.Body != nil {
		s.Body = *parts.Body
	}
	if r.TimeoutMs > 0 {
		s.Timeout = time.Duration(r.TimeoutMs) * time.Millisecond
		s.MaxExecutionTime = max(s.MaxExecutionTime, s.Timeout)
	}
	s = s.Normalize()
	return &s
}
