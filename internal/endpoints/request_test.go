package endpoints_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/template"
)

// auth returns an edit that sets the authentication of calls.
func auth(a endpoints.Auth) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.Auth = &a }
}

// TestTemplatesAreValidatedAtRegistration covers every complaint about templates, parameters and
// credentials. An empty want is a valid spec.
func TestTemplatesAreValidatedAtRegistration(t *testing.T) {
	t.Parallel()
	type spec = endpoints.Spec
	type a = endpoints.Auth
	const ref = `{{secret "x"}}`
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"Templates": {func(s *spec) {
			s.Method, s.URL, s.Query = "POST", "http://good/{{run.id}}?x={{run.attempt}}", map[string]string{"q": "{{endpoint.name}} & more"}
			s.Headers, s.Body = map[string]string{"X-Run": "{{run.id}}"}, `{"a":"{{last.status}}"}`
		}, ""},
		"URLUnknown":       {func(s *spec) { s.URL = "http://good/{{run.foo}}" }, "url template_invalid"},
		"URLHost":          {func(s *spec) { s.URL = "http://{{endpoint.key}}/" }, "url template_invalid"},
		"URLForbidden":     {func(s *spec) { s.URL = "http://forbidden/{{run.id}}" }, "url url_forbidden"},
		"URLTooLong":       {func(s *spec) { s.URL = "http://good/{{run.id}}" + strings.Repeat("x", 2048) }, "url too_long"},
		"URLSecretInPath":  {func(s *spec) { s.URL = "http://good/" + ref }, "url template_invalid"},
		"URLSecretInQuery": {func(s *spec) { s.URL = "http://good/?key=" + ref }, ""},
		"HeaderUnknown":    {func(s *spec) { s.Headers = map[string]string{"X-A": "{{x}}"} }, "headers.X-A template_invalid"},
		"HeaderLiteral":    {func(s *spec) { s.Headers = map[string]string{"Host": ref} }, "headers.Host header_forbidden"},
		"HeaderTwoFaults":  {func(s *spec) { s.Headers = map[string]string{"X-A": "{{x}}{{y}}"} }, "headers.X-A template_invalid, headers.X-A template_invalid"},
		"BodyUnknown":      {func(s *spec) { s.Body = "{{x}}" }, "body template_invalid"},
		"BodyNoJSON": {func(s *spec) {
			s.Headers, s.Body = map[string]string{"content-type": "application/json"}, `{"a":{{run.id}}`
		}, "body template_invalid"},
		"BodyLooksLikeJSON":  {func(s *spec) { s.Body = `[{{run.id}}` }, "body template_invalid"},
		"BodyOfText":         {func(s *spec) { s.Headers, s.Body = map[string]string{"Content-Type": "text/plain"}, `[{{run.id}}` }, ""},
		"BodyOfAString":      {func(s *spec) { s.Headers, s.Body = map[string]string{"Content-Type": "application/json"}, `{{"{{"}}` }, ""},
		"BodyTypeTemplated":  {func(s *spec) { s.Headers, s.Body = map[string]string{"Content-Type": "text/{{run.id}}"}, `{{run.id}}` }, "headers.Content-Type template_invalid"},
		"TypeTemplatedAlone": {func(s *spec) { s.Headers, s.Body = map[string]string{"Content-Type": "text/{{run.id}}"}, `x` }, ""},
		"LabelMissing":       {func(s *spec) { s.Body = "{{endpoint.labels.none}}" }, "body template_invalid"},
		"LabelThere":         {func(s *spec) { s.Labels, s.Body = map[string]string{"none": "x"}, "{{endpoint.labels.none}}" }, ""},
		"Query64":            {func(s *spec) { s.Query = many(64) }, ""},
		"Query65":            {func(s *spec) { s.Query = many(65) }, "query too_many"},
		"QueryNoName":        {func(s *spec) { s.Query = map[string]string{"": "x"} }, "query. invalid_characters"},
		"QueryNameTemplated": {func(s *spec) { s.Query = map[string]string{"{{run.id}}": "x"} }, "query.{{run.id}} template_invalid"},
		"QueryUnknown":       {func(s *spec) { s.Query = map[string]string{"q": "{{x}}"} }, "query.q template_invalid"},
		"QueryTooLong":       {func(s *spec) { s.Query = map[string]string{"q": strings.Repeat("x", 2049)} }, "query too_long, query.q too_long"},
		"QueryAltogether": {func(s *spec) {
			s.Query = map[string]string{"q": strings.Repeat("x", 1100), "r": strings.Repeat("x", 1100)}
		}, "query too_long"},
		"QueryNotUTF8":    {func(s *spec) { s.Query = map[string]string{"q": "\xff"} }, "query.q invalid_characters"},
		"QueryOfAnything": {func(s *spec) { s.Query = map[string]string{"a b&c=ü": "\n\x00#?&"} }, ""},

		"RedirectsOfASecret": {func(s *spec) { s.FollowRedirects, s.Body = 1, "x "+ref }, "followRedirects redirect_leaks"},
		"RedirectsOfOthers":  {func(s *spec) { s.FollowRedirects, s.Body = 1, "x {{run.id}}" }, ""},

		"AuthBasic":         {auth(a{Type: "basic", Username: "ada", Password: ref}), ""},
		"AuthBearer":        {auth(a{Type: "bearer", Token: ref}), ""},
		"AuthAPIKey":        {auth(a{Type: "apiKey", Header: "X-Api-Key", Value: "Key " + ref}), ""},
		"AuthOAuth2":        {auth(a{Type: "oauth2", TokenURL: "http://good/token", ClientID: "c", ClientSecret: ref, Scopes: []string{"a:b"}, Audience: "x"}), ""},
		"AuthType":          {auth(a{Type: "digest"}), "auth.type invalid_value"},
		"AuthBasicMissing":  {auth(a{Type: "basic"}), "auth.password required, auth.username required"},
		"AuthOAuth2Missing": {auth(a{Type: "oauth2"}), "auth.clientId required, auth.clientSecret required, auth.tokenUrl required"},
		"AuthForeign":       {auth(a{Type: "bearer", Token: ref, Username: "ada"}), "auth.username auth_field"},
		"AuthForeignScopes": {auth(a{Type: "bearer", Token: ref, Scopes: []string{"a"}}), "auth.scopes auth_field"},
		"AuthInTheClear":    {auth(a{Type: "bearer", Token: "hunter2"}), "auth.token secret_required"},
		"AuthNoSecret":      {auth(a{Type: "basic", Username: "ada", Password: "{{run.id}}"}), "auth.password secret_required"},
		"AuthLabelAsSecret": {func(s *spec) {
			s.Labels, s.Auth = map[string]string{"p": "x"}, &a{Type: "bearer", Token: "{{endpoint.labels.p}}"}
		}, "auth.token secret_required"},
		"AuthClientSecret":   {auth(a{Type: "oauth2", TokenURL: "http://good/", ClientID: "c", ClientSecret: "s"}), "auth.clientSecret secret_required"},
		"AuthValue":          {auth(a{Type: "apiKey", Header: "X-K", Value: "s"}), "auth.value secret_required"},
		"AuthTemplateBroken": {auth(a{Type: "bearer", Token: "{{secret}}"}), "auth.token template_invalid"},
		"AuthColon":          {auth(a{Type: "basic", Username: "a:b", Password: ref}), "auth.username invalid_characters"},
		"AuthLineBreak":      {auth(a{Type: "basic", Username: "a\nb", Password: ref}), "auth.username invalid_characters"},
		"AuthTokenURL":       {auth(a{Type: "oauth2", TokenURL: "http://forbidden", ClientID: "c", ClientSecret: ref}), "auth.tokenUrl url_forbidden"},
		"AuthAllAtOnce":      {auth(a{Type: "oauth2", TokenURL: "http://forbidden", ClientID: "c", ClientSecret: "s", Scopes: []string{"a b"}}), "auth.clientSecret secret_required, auth.scopes[0] invalid_characters, auth.tokenUrl url_forbidden"},
		"AuthTokenTemplate":  {auth(a{Type: "oauth2", TokenURL: "http://good/{{run.id}}", ClientID: "c", ClientSecret: ref}), "auth.tokenUrl template_invalid"},
		"AuthHeader":         {auth(a{Type: "apiKey", Header: "Host", Value: ref}), "auth.header header_forbidden"},
		"AuthScope":          {auth(a{Type: "oauth2", TokenURL: "http://good/", ClientID: "c", ClientSecret: ref, Scopes: []string{"ok", "a b"}}), "auth.scopes[1] invalid_characters"},
		"AuthTooLong":        {auth(a{Type: "bearer", Token: ref + strings.Repeat("x", 2048)}), "auth.token too_long"},
		"AuthConflict": {func(s *spec) {
			s.Headers, s.Auth = map[string]string{"authorization": "x"}, &a{Type: "bearer", Token: ref}
		}, "headers.authorization auth_conflict"},
		"AuthKeyConflict": {func(s *spec) {
			s.Headers, s.Auth = map[string]string{"x-key": "x"}, &a{Type: "apiKey", Header: "X-Key", Value: ref}
		}, "headers.x-key auth_conflict"},
		"AuthKeyBesides": {func(s *spec) {
			s.Headers, s.Auth = map[string]string{"Authorization": "x"}, &a{Type: "apiKey", Header: "X-Key", Value: ref}
		}, ""},
		"EveryFieldAtOnce": {func(s *spec) {
			s.URL, s.Body, s.Auth = "http://good/{{x}}", "{{y}}", &a{Type: "bearer"}
			s.Headers = map[string]string{"Host": "x"}
		}, "auth.token required, body template_invalid, headers.Host header_forbidden, url template_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, strings.Join(check(func(s *spec) { s.Method = "POST"; tc.edit(s) }), ", "))
		})
	}
}

func TestTemplateErrorNamesPlaceAndCorrection(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Method, s.Body, s.Auth = "POST", "a\n  {{run.foo}}", &endpoints.Auth{Type: "bearer", Token: "hunter2"}
	fields := errs.FieldsOf(endpoints.NewValidator(targets{}).Check(endpoints.ID{1}, s))
	require.Len(t, fields, 2)
	require.Regexp(t, `^at line 2, column 5: "run.foo" is not known here; there are run\.id, .*secret "NAME"$`, fields[0].Message)
	require.Contains(t, fields[1].Message, "PUT /v1/secrets/")
	require.NotContains(t, fields[1].Message, "hunter2")
}

// vault holds secrets by name.
type vault map[string]string

func (v vault) Secret(name string) (string, error) {
	if s, known := v[name]; known {
		return s, nil
	}
	return "", errors.New("there is no such secret")
}

func values() *template.Values {
	return &template.Values{
		Run:     template.Run{ID: "run_1", Attempt: 1, ScheduledFor: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Secrets: vault{"x": "p:w&d", "spaced": " x", "colon": "a:b", "long": strings.Repeat("x", 2000)},
	}
}

func render(t *testing.T, edit func(*endpoints.Spec)) (endpoints.Request, error) {
	t.Helper()
	s := valid()
	edit(&s)
	shape, bad := endpoints.ParseRequest(&s)
	require.Empty(t, bad)
	require.NotNil(t, shape)
	return shape.Render(values())
}

func TestParametersAreAddedInOrder(t *testing.T) {
	t.Parallel()
	query := map[string]string{"b": "2 &", "a": "é", "c": ""}
	for given, want := range map[string]string{
		"http://a":           "http://a?a=%C3%A9&b=2+%26&c=",
		"http://a/x?":        "http://a/x?a=%C3%A9&b=2+%26&c=",
		"http://a/x?y=1":     "http://a/x?y=1&a=%C3%A9&b=2+%26&c=",
		"http://a/x?y=1&":    "http://a/x?y=1&a=%C3%A9&b=2+%26&c=",
		"http://a/x?y=1#end": "http://a/x?y=1&a=%C3%A9&b=2+%26&c=#end",
		"http://a/x#end?":    "http://a/x?a=%C3%A9&b=2+%26&c=#end?",
	} {
		s := endpoints.Spec{URL: given, Query: query}
		require.Equal(t, want, s.Target())
		shape, bad := endpoints.ParseRequest(&s)
		require.Nil(t, shape, "every run sends the same")
		require.Empty(t, bad)
	}
	require.Equal(t, "http://a", (&endpoints.Spec{URL: "http://a"}).Target())

	got, err := render(t, func(s *endpoints.Spec) {
		s.URL, s.Query = "http://good/{{run.id}}?y={{run.attempt}}", map[string]string{"q": "{{run.id}}&{{secret 'x'}}", "p": "="}
	})
	require.NoError(t, err)
	require.Equal(t, "http://good/run_1?y=1&p=%3D&q=run_1%26p%3Aw%26d", got.URL)
}

func TestCredentialsAreWrittenAsTheirRFCsSay(t *testing.T) {
	t.Parallel()
	type a = endpoints.Auth
	const ref = `{{secret "x"}}`
	for name, tc := range map[string]struct {
		auth endpoints.Auth
		want endpoints.Request
	}{
		"Basic": {a{Type: "basic", Username: "ada-{{run.id}}", Password: ref}, endpoints.Request{
			Header: map[string]string{"Authorization": "Basic YWRhLXJ1bl8xOnA6dyZk"}, Sensitive: []string{"YWRhLXJ1bl8xOnA6dyZk"},
		}},
		"Bearer": {a{Type: "bearer", Token: ref}, endpoints.Request{Header: map[string]string{"Authorization": "Bearer p:w&d"}}},
		"APIKey": {a{Type: "apiKey", Header: "x-api-key", Value: "v=" + ref}, endpoints.Request{Header: map[string]string{"X-Api-Key": "v=p:w&d"}}},
		"OAuth2": {
			a{Type: "oauth2", TokenURL: "http://good/t", ClientID: "c-{{run.attempt}}", ClientSecret: ref, Scopes: []string{"s"}, Audience: "aud"},
			endpoints.Request{
				Header: map[string]string{},
				OAuth2: &endpoints.Grant{TokenURL: "http://good/t", ClientID: "c-1", ClientSecret: "p:w&d", Scopes: []string{"s"}, Audience: "aud"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := render(t, auth(tc.auth))
			require.NoError(t, err)
			tc.want.URL = valid().URL
			require.Equal(t, tc.want, got)
		})
	}
}

func TestUnsendableValueIsErrorWithField(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*endpoints.Spec){
		`body: line 1, column 1: there is no such secret`:                         func(s *endpoints.Spec) { s.Body = `{{secret "none"}}` },
		`headers.X-A: the value begins or ends with a space, which no header may`: func(s *endpoints.Spec) { s.Headers = map[string]string{"X-A": `{{secret "spaced"}}`} },
		`auth.username: a value holds a colon, which RFC 7617 does not allow`:     auth(endpoints.Auth{Type: "basic", Username: `{{secret "colon"}}`, Password: `{{secret "x"}}`}),
		`query: makes the URL longer than 2048 bytes`: func(s *endpoints.Spec) {
			s.Query = map[string]string{"q": `{{secret "long"}}`, "r": `{{secret "long"}}`}
		},
		`url: line 1, column 15: secret "long" makes the text longer than 2048 bytes`: func(s *endpoints.Spec) {
			s.URL = `http://good/?q={{secret "long"}}` + strings.Repeat("y", 10) + `{{secret "long"}}`
		},
		`auth.token: line 1, column 1: there is no such secret`:    auth(endpoints.Auth{Type: "bearer", Token: `{{secret "none"}}`}),
		`tls.clientKey: line 1, column 1: there is no such secret`: func(s *endpoints.Spec) { s.TLS = &endpoints.TLS{ClientKey: `{{secret "none"}}`} },
	} {
		_, err := render(t, edit)
		require.Error(t, err)
		if !strings.HasPrefix(want, "url:") {
			require.EqualError(t, err, want)
			continue
		}
		require.ErrorContains(t, err, "makes the text longer than 2048 bytes")
	}
}

func TestRequestTemplateReportsItsNeeds(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Headers = map[string]string{"x-one": `{{secret "b"}}`, "X-Two": "{{last.status}}"}
	s.Query = map[string]string{"q": `{{secret "a"}}`}
	s.Auth = &endpoints.Auth{Type: "apiKey", Header: "x-odd", Value: `{{secret "b"}}`}
	s.TLS = &endpoints.TLS{ClientKey: `{{secret "key"}}`}
	shape, bad := endpoints.ParseRequest(&s)
	require.Empty(t, bad)
	require.Equal(t, []string{"a", "b", "key"}, shape.Secrets())
	require.True(t, shape.UsesLast())
	require.Equal(t, []string{"X-Odd", "X-One"}, shape.Credentials())
	require.Equal(t, []endpoints.Reference{
		{Field: "auth.value", Secret: "b"}, {Field: "headers.x-one", Secret: "b"}, {Field: "query.q", Secret: "a"}, {Field: "tls.clientKey", Secret: "key"},
	}, s.References())
	plain := valid()
	require.Nil(t, plain.References())
}

// TestCredentialsOverPlainHTTPGetAWarning: credentials over plain HTTP get a warning, because every
// host on the way can read them.
func TestCredentialsOverPlainHTTPGetAWarning(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ url, tokenURL, want string }{
		{"https://a.example", "", ""},
		{"HTTP://a.example", "", "url"},
		{"https://a.example", "http://a.example", "auth.tokenUrl"},
	} {
		s := valid()
		s.URL, s.Auth = tc.url, &endpoints.Auth{Type: "bearer", TokenURL: tc.tokenURL}
		var fields []string
		for _, w := range (&endpoints.Endpoint{Spec: s}).Warnings(time.Now()) {
			if w.Code == "credentials_in_clear" {
				fields = append(fields, w.Field)
			}
		}
		require.Equal(t, tc.want, strings.Join(fields, " "))
	}
}

// FuzzShape: for any fields and parameters, a request goes to the host of its endpoint, and no
// header is malformed.
func FuzzShape(f *testing.F) {
	f.Add("http://good/{{endpoint.name}}", "{{endpoint.name}}", "{{endpoint.name}}", "@evil/..//\r\nX: y")
	f.Add("http://good?{{endpoint.name}}#x", "&x={{endpoint.key}}", "{{run.id}}", "#?&")
	f.Fuzz(func(t *testing.T, target, parameter, header, evil string) {
		s := valid()
		s.URL, s.Query, s.Headers = target, map[string]string{"q": parameter}, map[string]string{"X-A": header}
		if endpoints.NewValidator(targets{}).Check(endpoints.ID{1}, s) != nil {
			return
		}
		shape, _ := endpoints.ParseRequest(&s)
		if shape == nil {
			return
		}
		got, err := shape.Render(&template.Values{
			Run: template.Run{ID: evil}, Endpoint: template.Endpoint{Name: evil, Key: evil}, Secrets: vault{"x": evil},
		})
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got.URL), 2048)
		literal, _, _ := strings.Cut(target, template.Open)
		plain, err := url.Parse(literal)
		filled, filledErr := url.Parse(got.URL)
		if err != nil || filledErr != nil {
			return // The guard refuses what cannot be read.
		}
		require.Equal(t, plain.Host, filled.Host)
		require.Equal(t, plain.Scheme, filled.Scheme)
		if !strings.ContainsAny(header, "\r\n") {
			require.NotContains(t, got.Header["X-A"], "\n")
			require.NotContains(t, got.Header["X-A"], "\r")
		}
	})
}
