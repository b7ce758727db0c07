package endpoints

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"rubato/internal/errs"
	"rubato/internal/template"
)

// checkQuery checks the names and values of the query parameters.
func checkQuery(s *Spec) []errs.Field {
	var bad []errs.Field
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		field, value := "query."+name, s.Query[name]
		switch {
		case name == "" || len(name) > 255 || !isText(name):
			bad = append(bad, errs.Field{
				Field:   field,
				Code:    "invalid_characters",
				Message: "must have a name of 1 to 255 bytes of readable text",
			})
		case template.Is(name):
			bad = append(bad, errs.Field{
				Field:   field,
				Code:    codeTemplate,
				Message: "must have a literal name; templates may stand in its value",
			})
		case len(value) > maxURLBytes:
			bad = append(bad, errs.Field{
				Field:   field,
				Code:    "too_long",
				Message: fmt.Sprintf("must be at most %d bytes long", maxURLBytes),
			})
		case !utf8.ValidString(value):
			bad = append(bad, errs.Field{
				Field:   field,
				Code:    "invalid_characters",
				Message: "must be valid UTF-8",
			})
		}
	}
	return bad
}

// checkTarget checks the final URL, with a short sample in place of every template value.
func (v *Validator) checkTarget(s *Spec, shape *RequestTemplate) []errs.Field {
	if s.URL == "" {
		return nil
	}
	if len(s.URL) > maxURLBytes {
		return []errs.Field{{
			Field:   "url",
			Code:    "too_long",
			Message: fmt.Sprintf("must be at most %d bytes long", maxURLBytes),
		}}
	}
	target, query := s.URL, s.Query
	if shape != nil {
		target, query = sampleOf(shape.url, s.URL), make(map[string]string, len(s.Query))
		for name, value := range s.Query {
			query[name] = sampleOf(shape.query[name], value)
		}
	}
	if f := v.targets.CheckURL(target); f != nil {
		return []errs.Field{{
			Field:   "url",
			Code:    f.Code,
			Message: f.Message,
		}}
	}
	if len(withQuery(target, query)) > maxURLBytes {
		return []errs.Field{{
			Field:   "query",
			Code:    "too_long",
			Message: fmt.Sprintf("must leave the URL at most %d bytes long", maxURLBytes),
		}}
	}
	return nil
}

// checkRedirects refuses redirects for a body with a secret. A redirect to another host drops the
// secret headers but carries the body.
func checkRedirects(s *Spec, shape *RequestTemplate) []errs.Field {
	if s.FollowRedirects == 0 || !shape.SecretInBody() {
		return nil
	}
	return []errs.Field{{
		Field:   "followRedirects",
		Code:    "redirect_leaks",
		Message: "must be 0 where the body holds a secret: a redirect would carry it to another host",
	}}
}

// sampleOf returns a text with a sample in place of every template value.
func sampleOf(parsed *template.Template, literal string) string {
	if parsed == nil {
		return literal
	}
	return parsed.Sample("x")
}
