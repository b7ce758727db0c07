package endpoints

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"rubato/internal/errs"
	"rubato/internal/template"
)

// The bounds of what templates yield: those of the fields that they stand in.
const (
	maxURLBytes    = 2048
	maxHeaderBytes = 8 << 10
	maxBodyBytes   = 256 << 10
	maxKeyBytes    = 64 << 10 // of a client key
)

// Shape is the request of an endpoint at one version, parsed: what a run fills in, and how it proves who is calling. It never changes
// and is safe for concurrent use.
type Shape struct {
	spec      *Spec
	url       *template.Template // nil: literal; likewise the others
	query     map[string]*template.Template
	headers   map[string]*template.Template
	body      *template.Template
	clientKey *template.Template
	auth      map[string]*template.Template // by the name of the field
	fault     error                         // why nothing can be sent

	secrets     []string // that it names, sorted, each once
	credentials []string // see Credentials
	last        bool     // it speaks of the run before
}

// Request is what a run sends, with its values filled in.
type Request struct {
	URL       string
	Header    map[string]string // the headers that a run fills in, those of auth included
	Body      string
	ClientKey string // PEM; empty: none
	OAuth2    *Grant // a token is to be got first; nil: none
	// Sensitive are texts in it that were made of secrets and are not those themselves. They must not be shown or stored.
	Sensitive []string
}

// Grant asks for a token by the client credentials grant.
type Grant struct {
	TokenURL, ClientID, ClientSecret, Audience string
	Scopes                                     []string
}

// ParseShape parses what a run fills in. It returns nil where there is nothing; then every run sends the same request, to [Spec.Target].
// Bad fields are named with the places of their faults, and what would be right.
func ParseShape(s *Spec) (*Shape, []errs.Field) {
	if !s.shaped() {
		return nil, nil
	}
	p := &shapeParser{spec: s}
	shape := &Shape{spec: s, query: map[string]*template.Template{}, headers: map[string]*template.Template{}, auth: map[string]*template.Template{}}
	shape.url = p.parse("url", s.URL, template.URL)
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		shape.query[name] = p.parse("query."+name, s.Query[name], template.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if parsed := p.parse("headers."+name, s.Headers[name], template.Header); parsed != nil {
			shape.headers[name] = parsed
		}
	}
	if shape.body = p.parse("body", s.Body, s.bodyField()); shape.body != nil && shape.headers[s.headerNamed("Content-Type")] != nil {
		p.bad = append(p.bad, errs.Field{
			Field: "headers." + s.headerNamed("Content-Type"), Code: codeTemplate,
			Message: "must be literal where the body holds templates: it decides how values are escaped",
		})
	}
	if s.TLS != nil {
		shape.clientKey = p.parse("tls.clientKey", s.TLS.ClientKey, template.Text)
	}
	if s.Auth != nil {
		for _, f := range s.Auth.templated() {
			shape.auth[f.name] = p.parse("auth."+f.name, f.value, template.Header)
		}
	}
	if len(p.bad) > 0 {
		shape.fault = fmt.Errorf("%s: %s", p.bad[0].Field, p.bad[0].Message)
	}
	shape.survey()
	return shape, p.bad
}

// codeTemplate is the code of a field whose template is wrong.
const codeTemplate = "template_invalid"

// shaped reports whether a run has anything to fill in.
func (s *Spec) shaped() bool {
	if s.Auth != nil || template.Is(s.URL) || template.Is(s.Body) || s.TLS != nil && template.Is(s.TLS.ClientKey) {
		return true
	}
	for _, texts := range []map[string]string{s.Query, s.Headers} {
		for _, text := range texts {
			if template.Is(text) {
				return true
			}
		}
	}
	return false
}

// shapeParser parses the fields of a spec.
type shapeParser struct {
	spec *Spec
	bad  []errs.Field
}

func (p *shapeParser) parse(field, text string, of template.Field) *template.Template {
	parsed, faults := template.Parse(text, template.Options{Field: of, Labels: p.spec.Labels})
	for _, fault := range faults {
		p.bad = append(p.bad, errs.Field{Field: field, Code: codeTemplate, Message: "at " + fault.Error()})
	}
	return parsed
}

// bodyField returns what the body is: what its Content-Type says, or JSON where there is none and it begins like a document.
func (s *Spec) bodyField() template.Field {
	declared := s.Headers[s.headerNamed("Content-Type")]
	kind, _, _ := mime.ParseMediaType(declared)
	switch {
	case strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json"):
		return template.JSON
	case kind == "application/x-www-form-urlencoded":
		return template.Form
	case strings.HasSuffix(kind, "/xml") || strings.HasSuffix(kind, "+xml") || kind == "text/html":
		return template.XML
	case declared == "" && beginsLikeJSON(s.Body):
		return template.JSON
	default:
		return template.Text
	}
}

func beginsLikeJSON(body string) bool {
	body = strings.TrimLeft(body, " \t\r\n")
	return strings.HasPrefix(body, "[") || strings.HasPrefix(body, "{") && !strings.HasPrefix(body, template.Open)
}

// headerNamed returns how the user wrote the name of a header; the name itself where there is none.
func (s *Spec) headerNamed(name string) string {
	for given := range s.Headers {
		if strings.EqualFold(given, name) {
			return given
		}
	}
	return name
}

// Target returns the URL with the parameters of the query added, by their names in order. It is for specs that hold no templates in
// either.
func (s *Spec) Target() string { return withQuery(s.URL, s.Query) }

// origin returns whom the URL names: scheme, host and port, which are literal.
func (s *Spec) origin() string {
	scheme, rest, _ := strings.Cut(strings.ToLower(s.URL), "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	usual := map[string]string{"http": ":80", "https": ":443"}
	return scheme + "://" + strings.TrimSuffix(rest, usual[scheme])
}

// withQuery adds parameters to a URL, in front of its fragment.
func withQuery(target string, query map[string]string) string {
	if len(query) == 0 {
		return target
	}
	target, fragment, marked := strings.Cut(target, "#")
	var out strings.Builder
	out.WriteString(target)
	separator := byte('?')
	if at := strings.IndexByte(target, '?'); at >= 0 {
		separator = '&'
		if at == len(target)-1 || target[len(target)-1] == '&' {
			separator = 0
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if separator != 0 {
			out.WriteByte(separator)
		}
		separator = '&'
		out.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(query[name]))
	}
	if marked {
		out.WriteString("#" + fragment)
	}
	return out.String()
}

// Render fills in the values of a run. The error names the field and the place, and shows no value.
func (s *Shape) Render(v *template.Values) (Request, error) {
	if s.fault != nil {
		return Request{}, s.fault
	}
	r := &renderer{values: v}
	out := Request{URL: r.render("url", s.url, s.spec.URL, maxURLBytes)}
	query := make(map[string]string, len(s.spec.Query))
	for _, name := range slices.Sorted(maps.Keys(s.query)) {
		query[name] = r.render("query."+name, s.query[name], s.spec.Query[name], maxURLBytes)
	}
	if out.URL = withQuery(out.URL, query); len(out.URL) > maxURLBytes && r.err == nil {
		r.err = fmt.Errorf("query: makes the URL longer than %d bytes", maxURLBytes)
	}
	out.Header = make(map[string]string, len(s.headers)+1)
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		out.Header[http.CanonicalHeaderKey(name)] = r.header("headers."+name, s.headers[name], s.spec.Headers[name])
	}
	out.Body = r.render("body", s.body, s.spec.Body, maxBodyBytes)
	if s.spec.TLS != nil {
		out.ClientKey = r.render("tls.clientKey", s.clientKey, s.spec.TLS.ClientKey, maxKeyBytes)
	}
	s.renderAuth(r, &out)
	out.Sensitive = append(out.Sensitive, v.Made()...)
	if r.err != nil {
		return Request{}, r.err
	}
	return out, nil
}

// renderer fills in one field after the other, until one fails.
type renderer struct {
	values *template.Values
	err    error
}

func (r *renderer) render(field string, parsed *template.Template, literal string, limit int) string {
	if parsed == nil || r.err != nil {
		return literal
	}
	text, err := parsed.Render(r.values, limit)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", field, err)
	}
	return text
}

// header fills in the value of a header. Spaces around it would not arrive.
func (r *renderer) header(field string, parsed *template.Template, literal string) string {
	text := r.render(field, parsed, literal, maxHeaderBytes)
	if r.err == nil && strings.Trim(text, " \t") != text {
		r.err = fmt.Errorf("%s: the value begins or ends with a space, which no header may", field)
	}
	return text
}

// Reference is a place of a spec that names a secret.
type Reference struct {
	Field  string
	Secret string
}

// References returns the secrets that the spec names, by the fields that name them, in order. Of a spec that breaks rules it returns
// what can be read.
func (s *Spec) References() []Reference {
	shape, _ := ParseShape(s)
	if shape == nil {
		return nil
	}
	var list []Reference
	for field, parsed := range shape.fields() {
		for _, secret := range parsed.Secrets() {
			list = append(list, Reference{Field: field, Secret: secret})
		}
	}
	slices.SortFunc(list, func(a, b Reference) int {
		return strings.Compare(a.Field+"\x00"+a.Secret, b.Field+"\x00"+b.Secret)
	})
	return list
}

// secretsOf returns the secrets that are referred to, sorted, each once.
func secretsOf(list []Reference) []string {
	names := make([]string, 0, len(list))
	for _, r := range list {
		names = append(names, r.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// UnknownSecrets returns what is wrong with references to secrets that are not among those known, as an [errs.Invalid] that names every
// one of them; nil where nothing is.
func UnknownSecrets(list []Reference, known []string) error {
	var bad []errs.Field
	for _, r := range list {
		if !slices.Contains(known, r.Secret) {
			bad = append(bad, errs.Field{
				Field: r.Field, Code: "secret_unknown",
				Message: fmt.Sprintf("refers to the secret %q, which does not exist; store it first: PUT /v1/secrets/%s, or rubato secrets set %s", r.Secret, r.Secret, r.Secret),
			})
		}
	}
	return errs.InvalidFields(bad)
}

// fields returns every template, by its field.
func (s *Shape) fields() map[string]*template.Template {
	all := map[string]*template.Template{"url": s.url, "body": s.body, "tls.clientKey": s.clientKey}
	for prefix, list := range map[string]map[string]*template.Template{"query.": s.query, "headers.": s.headers, "auth.": s.auth} {
		for name, parsed := range list {
			all[prefix+name] = parsed
		}
	}
	maps.DeleteFunc(all, func(_ string, parsed *template.Template) bool { return parsed == nil })
	return all
}

// survey notes what the templates need, so that no run has to look.
func (s *Shape) survey() {
	for _, parsed := range s.fields() {
		s.secrets = append(s.secrets, parsed.Secrets()...)
		s.last = s.last || parsed.UsesLast()
	}
	for name, parsed := range s.headers {
		if len(parsed.Secrets()) > 0 {
			s.credentials = append(s.credentials, http.CanonicalHeaderKey(name))
		}
	}
	if s.spec.Auth != nil {
		s.credentials = append(s.credentials, s.spec.Auth.header())
	}
	slices.Sort(s.secrets)
	slices.Sort(s.credentials)
	s.secrets, s.credentials = slices.Compact(s.secrets), slices.Compact(s.credentials)
}

// Secrets returns the names of the secrets that a run needs, sorted, each once. It must not be changed.
func (s *Shape) Secrets() []string { return s.secrets }

// UsesLast reports whether a run needs to know of the one before.
func (s *Shape) UsesLast() bool { return s.last }

// Credentials returns the names of the headers that hold secrets, in their canonical form: they are not for other hosts. It must not
// be changed.
func (s *Shape) Credentials() []string { return s.credentials }
