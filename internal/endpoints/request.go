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

// Bounds of rendered values, in bytes. They equal the bounds of the literal fields.
const (
	maxURLBytes    = 2048
	maxHeaderBytes = 8 << 10
	maxBodyBytes   = 256 << 10
	maxKeyBytes    = 64 << 10 // of a client key
)

// RequestTemplate is the parsed request of an endpoint at one version, including its
// authentication. It is immutable and safe for concurrent use.
type RequestTemplate struct {
	spec *Spec
	// url is nil for a literal URL; likewise the other templates.
	url       *template.Template
	query     map[string]*template.Template
	headers   map[string]*template.Template
	body      *template.Template
	clientKey *template.Template
	// auth holds the templates of Auth by the name of the field.
	auth map[string]*template.Template
	// fault is the error that every Render returns if a template is invalid.
	fault error

	// secrets holds the names of the referenced secrets, sorted and unique.
	secrets []string
	// credentials is the result of Credentials.
	credentials []string
	// last reports whether a template uses the previous run.
	last bool
}

// Request is a rendered request.
type Request struct {
	URL string
	// Header holds the rendered headers, including that of the authentication.
	Header map[string]string
	Body   string
	// ClientKey is PEM; empty: none.
	ClientKey string
	// OAuth2 is the grant to fetch a token with before the request is sent; nil: none.
	OAuth2 *Grant
	// Sensitive holds texts that were derived from secrets, such as encoded credentials. They must
	// not be shown or stored.
	Sensitive []string
}

// Grant is a client credentials grant.
type Grant struct {
	TokenURL, ClientID, ClientSecret, Audience string
	Scopes                                     []string
}

// ParseRequest parses the templates of a spec. It returns nil if there are none, because every run
// then sends the same request to [Spec.Target]. The bad fields have the place of each fault and the
// right form.
func ParseRequest(s *Spec) (*RequestTemplate, []errs.Field) {
	if !s.shaped() {
		return nil, nil
	}
	p := &templateParser{spec: s}
	shape := &RequestTemplate{
		spec:    s,
		query:   map[string]*template.Template{},
		headers: map[string]*template.Template{},
		auth:    map[string]*template.Template{},
	}
	shape.url = p.parse("url", s.URL, template.URL)
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		shape.query[name] = p.parse("query."+name, s.Query[name], template.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if parsed := p.parse("headers."+name, s.Headers[name], template.Header); parsed != nil {
			shape.headers[name] = parsed
		}
	}
	if shape.body = p.parse("body", s.Body, s.BodyField()); shape.body != nil && shape.headers[s.headerNamed("Content-Type")] != nil {
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
	shape.index()
	return shape, p.bad
}

// codeTemplate is the error code of a field with an invalid template.
const codeTemplate = "template_invalid"

// shaped reports whether the request has templates or authentication.
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

// templateParser parses the templates of a spec and collects their faults.
type templateParser struct {
	spec *Spec
	bad  []errs.Field
}

func (p *templateParser) parse(field, text string, of template.Field) *template.Template {
	parsed, faults := template.Parse(text, template.Options{Field: of, Labels: p.spec.Labels})
	for _, fault := range faults {
		p.bad = append(p.bad, errs.Field{
			Field:   field,
			Code:    codeTemplate,
			Message: "at " + fault.Error(),
		})
	}
	return parsed
}

// BodyField returns the kind of escaping for the body. It follows from the Content-Type; without
// one, a body that begins like a JSON document is JSON.
func (s *Spec) BodyField() template.Field {
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

// headerNamed returns a header's name in the user's spelling; without such a header it returns
// name.
func (s *Spec) headerNamed(name string) string {
	for given := range s.Headers {
		if strings.EqualFold(given, name) {
			return given
		}
	}
	return name
}

// Target returns the URL with the query parameters appended in the order of their names. It is for
// specs without templates in both.
func (s *Spec) Target() string { return withQuery(s.URL, s.Query) }

// origin returns scheme, host and port of the URL. They are always literal.
func (s *Spec) origin() string {
	scheme, rest, _ := strings.Cut(strings.ToLower(s.URL), "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	usual := map[string]string{"http": ":80", "https": ":443"}
	return scheme + "://" + strings.TrimSuffix(rest, usual[scheme])
}

// Host returns the host of the URL in lower case, with its port unless that is the usual one of the
// scheme.
func (s *Spec) Host() string {
	_, host, _ := strings.Cut(s.origin(), "://")
	return host[strings.LastIndexByte(host, '@')+1:]
}

// withQuery appends parameters to a URL, before its fragment.
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

// Render renders the request with the values of a run. The error names the field and the place, and
// contains no value.
func (s *RequestTemplate) Render(v *template.Values) (Request, error) {
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

// renderer renders the fields one by one, and stops at the first error.
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

// header renders the value of a header. Surrounding spaces are refused, because HTTP strips them.
func (r *renderer) header(field string, parsed *template.Template, literal string) string {
	text := r.render(field, parsed, literal, maxHeaderBytes)
	if r.err == nil && strings.Trim(text, " \t") != text {
		r.err = fmt.Errorf("%s: the value begins or ends with a space, which no header may", field)
	}
	return text
}

// Reference is a field of a spec that refers to a secret.
type Reference struct {
	Field  string
	Secret string
}

// References returns the secrets that the spec refers to, sorted by field. For an invalid spec it
// returns the readable references.
func (s *Spec) References() []Reference {
	shape, _ := ParseRequest(s)
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

// secretsOf returns the referenced secrets, sorted and unique.
func secretsOf(list []Reference) []string {
	names := make([]string, 0, len(list))
	for _, r := range list {
		names = append(names, r.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// UnknownSecrets returns an [errs.Invalid] that names every reference to a secret outside known;
// nil if all are known.
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

// fields returns every template by its field.
func (s *RequestTemplate) fields() map[string]*template.Template {
	all := map[string]*template.Template{"url": s.url, "body": s.body, "tls.clientKey": s.clientKey}
	for prefix, list := range map[string]map[string]*template.Template{"query.": s.query, "headers.": s.headers, "auth.": s.auth} {
		for name, parsed := range list {
			all[prefix+name] = parsed
		}
	}
	maps.DeleteFunc(all, func(_ string, parsed *template.Template) bool { return parsed == nil })
	return all
}

// index collects the secrets and credentials of all templates once, so that runs need no search.
func (s *RequestTemplate) index() {
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

// Secrets returns the names of the secrets that a run needs, sorted and unique. Callers must not
// modify it.
func (s *RequestTemplate) Secrets() []string { return s.secrets }

// SecretInBody reports whether the body holds a secret, so that no redirect may carry it. It is
// false for a nil template.
func (s *RequestTemplate) SecretInBody() bool {
	return s != nil && s.body != nil && len(s.body.Secrets()) > 0
}

// UsesLast reports whether rendering needs the previous run.
func (s *RequestTemplate) UsesLast() bool { return s.last }

// Credentials returns the canonical names of the headers that hold secrets, so that a redirect to
// another host drops them. Callers must not modify it.
func (s *RequestTemplate) Credentials() []string { return s.credentials }
