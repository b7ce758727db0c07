package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/api"
	"rubato/internal/auth"
	"rubato/internal/calls"
	"rubato/internal/chains"
	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/hosts"
	"rubato/internal/httpapi"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/spending"
)

const (
	readKey  = "rbt_reader"
	writeKey = "rbt_writer"
	adminKey = "rbt_admin"
	otherKey = "rbt_other_tenant"
)

// service is a server without a database. It checks each answer against the contract.
type service struct {
	t        *testing.T
	server   *httpapi.Server
	store    *memory
	once     *answers
	runs     history
	logs     *bytes.Buffer
	registry *prometheus.Registry
	contract routers.Router
	ready    error
}

func newService(t *testing.T, runs ...history) *service {
	t.Helper()
	return newServiceWith(t, httpapi.Config{}, runs...)
}

// newServiceWith is newService with some settings.
func newServiceWith(t *testing.T, settings httpapi.Config, runs ...history) *service {
	t.Helper()
	return serviceOf(t, settings, testKeyring(), runs...)
}

// newServiceWithoutSecretKeys is newService without encryption keys for secrets.
func newServiceWithoutSecretKeys(t *testing.T) *service {
	t.Helper()
	return serviceOf(t, httpapi.Config{}, nil)
}

func serviceOf(t *testing.T, settings httpapi.Config, ring *secrets.Keyring, runs ...history) *service {
	t.Helper()
	s := &service{t: t, store: newMemory(), once: newAnswers(), logs: new(bytes.Buffer), registry: prometheus.NewRegistry(), contract: contractRouter()}
	for _, h := range runs {
		s.runs = append(s.runs, h...)
	}
	tenant, other := auth.DefaultTenant(), [16]byte{2}
	authenticator := auth.NewAuthenticator(keyring{
		auth.Hash(readKey):  {TenantID: tenant, KeyID: [16]byte{1}, Name: "reader", Scopes: []auth.Scope{auth.Read}},
		auth.Hash(writeKey): {TenantID: tenant, KeyID: [16]byte{2}, Name: "writer", Scopes: []auth.Scope{auth.Write}},
		auth.Hash(adminKey): {TenantID: tenant, KeyID: [16]byte{3}, Name: "admin", Scopes: []auth.Scope{auth.Admin}},
		auth.Hash(otherKey): {TenantID: other, KeyID: [16]byte{4}, Name: "other", Scopes: []auth.Scope{auth.Admin}},
	})
	if settings.Tester == nil {
		settings.Tester = tester{store: s.store}
	}
	if settings.Callbacks == nil {
		settings.Callbacks = reporting{}
	}
	if settings.Feed == nil {
		settings.Feed = emptyFeed{}
	}
	s.server = httpapi.New(httpapi.Config{
		Audit:      trail{s.store},
		Versions:   s.store,
		Ledger:     s.store,
		Auth:       authenticator,
		Bulk:       endpoints.NewBulk(s.store, targets{}),
		Keys:       auth.NewKeyring(s.store, authenticator, 20),
		Notices:    notices.NewService(noticeStore{s.store}, func([16]byte) notices.Permissions { return reachable{} }, noticeStore{s.store}),
		Once:       s.once,
		Origins:    settings.Origins,
		Planner:    reviews{s.store},
		Undo:       reviews{s.store},
		Proxies:    settings.Proxies,
		Rate:       settings.Rate,
		Endpoints:  endpoints.NewService(s.store, targets{}),
		Feed:       settings.Feed,
		Logger:     slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Ready:      func(context.Context) error { return s.ready },
		Registerer: s.registry,
		Runs:       s.runs,
		Stats:      numbers{},
		Fleet:      fleet{},
		Secrets:    secrets.NewService(s.store, ring),
		Signing:    signing.NewService(s.store, ring),
		Budgets:    spending.NewService(s.store),
		Calls:      calls.NewService(fakeCalls{s.store}, targets{}),
		Chains:     chains.NewService(fakeChains{s.store}, fakeChains{s.store}),
		Letters:    deadletters.NewService(letters{s.store}, endpoints.NewService(s.store, targets{}), calls.NewService(fakeCalls{s.store}, targets{}), nil),
		Hosts:      hosts.NewService(s.store, false),
		Tester:     settings.Tester,
		Callbacks:  settings.Callbacks,
	})
	return s
}

// loadContract returns the contract, which every test shares.
var loadContract = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		panic(err)
	}
	return doc
})

var contractRouter = sync.OnceValue(func() routers.Router {
	for _, media := range []string{"application/x-ndjson", "text/event-stream"} { // Texts, as far as the contract can say.
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.PlainBodyDecoder)
	}
	router, err := legacy.NewRouter(loadContract())
	if err != nil {
		panic(err)
	}
	return router
})

// answer is an answer with its decoded body.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// request changes a request before it is sent.
type request func(*http.Request)

func withKey(key string) request {
	return func(r *http.Request) {
		r.Header.Del("Authorization")
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
	}
}

func withHeader(name, value string) request {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// call sends a request with an admin key. A body is sent as JSON.
func (s *service) call(method, path, body string, changes ...request) *answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	withKey(writeKey)(r)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.Contains(path, ":import") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	a := &answer{t: s.t, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	s.conforms(r, a)
	if a.status < 300 {
		s.accepts(r, body)
	}
	return a
}

// send sends a request without checking the answer against the contract.
func (s *service) send(method, path string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, http.NoBody)
	withKey(writeKey)(r)
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

// accepts requires that the contract permits a request that the server has accepted.
func (s *service) accepts(r *http.Request, body string) {
	s.t.Helper()
	route, params, err := s.contract.FindRoute(r)
	require.NoError(s.t, err)
	sent := r.Clone(s.t.Context())
	sent.Body = io.NopCloser(strings.NewReader(body))
	if body != "" && sent.Header.Get("Content-Type") == "" {
		sent.Header.Set("Content-Type", "application/json")
	}
	require.NoError(s.t, openapi3filter.ValidateRequest(s.t.Context(), &openapi3filter.RequestValidationInput{
		Request: sent, PathParams: params, Route: route,
		Options: &openapi3filter.Options{MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}), "%s %s: %.300s", r.Method, r.URL, body)
}

// conforms checks an answer against the contract.
func (s *service) conforms(r *http.Request, a *answer) {
	s.t.Helper()
	require.NotEmpty(s.t, a.header.Get("X-Request-Id"))
	if a.status >= 400 {
		require.Equal(s.t, "application/problem+json", a.header.Get("Content-Type"))
		require.Equal(s.t, a.status, a.problem().Status)
	}
	route, params, err := s.contract.FindRoute(r)
	if err != nil || a.unrouted() { // The contract says nothing about routes that it does not have.
		require.True(s.t, a.unrouted(), "%s", a.body)
		return
	}
	err = openapi3filter.ValidateResponse(s.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	require.NoError(s.t, err, "%s %s: %d %s", r.Method, r.URL, a.status, a.body)
}

// problem is a problem document.
type problem struct {
	Status int
	Code   string
	Detail string
	Errors []struct{ Field, Code, Message string }
}

func (a *answer) problem() problem {
	a.t.Helper()
	var p problem
	require.NoError(a.t, json.Unmarshal(a.body, &p), "%s", a.body)
	return p
}

// unrouted reports whether the router refused the request.
func (a *answer) unrouted() bool {
	return bytes.Contains(a.body, []byte(`"route_not_found"`)) || bytes.Contains(a.body, []byte(`"method_not_allowed"`))
}

// complaints returns the bad fields as "field code".
func (a *answer) complaints() []string {
	a.t.Helper()
	list := []string{}
	for _, e := range a.problem().Errors {
		require.NotEmpty(a.t, e.Message, "%s", e.Field)
		list = append(list, e.Field+" "+e.Code)
	}
	return list
}

// is requires a status and returns the answer as JSON.
func (a *answer) is(status int) map[string]any {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	if len(a.body) == 0 {
		return nil
	}
	var v map[string]any
	require.NoError(a.t, json.Unmarshal(a.body, &v))
	return v
}

// register returns the id of a new endpoint.
func (s *service) register(body string) string {
	s.t.Helper()
	return s.call("POST", "/v1/endpoints", body).is(http.StatusCreated)["id"].(string) //nolint:forcetypeassert // The contract was checked.
}

const minimal = `{"name":"p","url":"https://api.example.com/","baselineIntervalMs":60000}`

// only returns the one stored endpoint.
func (s *service) only() *endpoints.Endpoint {
	s.t.Helper()
	require.Len(s.t, s.store.endpoints, 1)
	for _, e := range s.store.endpoints {
		return e
	}
	return nil
}
