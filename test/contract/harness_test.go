// Package contract holds a real API server on a real Postgres against the contract that it serves:
// every route, both ways, in the name of its tenant and of another one.
package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"rubato/api"
	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/auth"
	"rubato/internal/callbacks"
	"rubato/internal/config"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/runs"
	"rubato/internal/stats"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

const (
	eventMedia = "text/event-stream"
	lineMedia  = "application/x-ndjson"
)

const (
	adminKey = "rbt_admin_of_the_default_tenant"
	otherKey = "rbt_admin_of_another_tenant"
)

// world is a server with two tenants.
type world struct {
	url    string
	pool   *pgxpool.Pool // for looking past the server
	keys   map[string]string
	client *http.Client
}

func setup(t *testing.T) *world {
	t.Helper()
	database := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	pool, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w := &world{url: serve(t, database), pool: pool, keys: map[string]string{"admin": adminKey}, client: new(http.Client)}
	t.Cleanup(w.client.CloseIdleConnections)
	w.addTenant(t)
	for _, scope := range []string{"read", "write"} {
		made := w.call(t, "POST", "/v1/keys", `{"name":"`+scope+`","scopes":["`+scope+`"]}`)
		w.keys[scope], _ = made.is(t, http.StatusCreated)["secret"].(string)
	}
	return w
}

// serve runs an API server until the test ends and returns its URL.
func serve(t *testing.T, database string) string {
	t.Helper()
	settings, err := config.Load([]string{
		"DATABASE_URL=" + database, "RUBATO_LISTEN=127.0.0.1:0", "RUBATO_ADMIN_LISTEN=127.0.0.1:0",
		"RUBATO_BOOTSTRAP_API_KEY=" + adminKey, "RUBATO_API_RATE=0", "RUBATO_TRUSTED_PROXIES=127.0.0.0/8",
		"RUBATO_SECRET_KEYS=k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}, config.Program{})
	require.NoError(t, err)
	started, ended := make(chan app.Addresses, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended <- apiserver.API{Settings: settings, Logger: slog.New(slog.DiscardHandler), Started: func(a app.Addresses) { started <- a }}.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, app.Interrupted(ctx, <-ended))
	})
	select {
	case a := <-started:
		return a.API
	case err := <-ended:
		ended <- err
		require.FailNow(t, "the server ended before it served", "%v", err)
		return ""
	}
}

// addTenant makes another tenant with a key that may do everything.
func (w *world) addTenant(t *testing.T) {
	t.Helper()
	hash := auth.Hash(otherKey)
	_, err := w.pool.Exec(t.Context(), `
		WITH made AS (INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'other') RETURNING id)
		INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scopes) SELECT gen_random_uuid(), id, 'other', '', $1, '{admin}' FROM made`, hash[:])
	require.NoError(t, err)
}

// answer is an answer with its decoded body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

type problem struct {
	Code   string
	Errors []struct{ Field, Code, Message string }
}

func (a *answer) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	require.NoError(t, json.Unmarshal(a.body, &p), "%s", a.body)
	return p
}

// is requires a status and returns the answer as JSON.
func (a *answer) is(t *testing.T, status int) map[string]any {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	var v map[string]any
	if len(a.body) > 0 {
		require.NoError(t, json.Unmarshal(a.body, &v))
	}
	return v
}

// change changes a request before it is sent.
type change func(*http.Request)

func key(secret string) change {
	return func(r *http.Request) {
		r.Header.Del("Authorization")
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
	}
}

func header(name, value string) change { return func(r *http.Request) { r.Header.Set(name, value) } }

// call sends a request with the key of an admin, and JSON where there is a body, and holds the
// answer against the contract.
func (w *world) call(t *testing.T, method, path, body string, changes ...change) *answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(t, err)
	key(adminKey)(r)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, change := range changes {
		change(r)
	}
	response, err := w.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := readAnswer(response)
	require.NoError(t, err)
	a := &answer{status: response.StatusCode, header: response.Header, body: text}
	r.URL.Scheme, r.URL.Host = "", "" // The contract's server is wherever it is served.
	conforms(t, r, a)
	if a.status < http.StatusBadRequest {
		accepts(t, r, body)
	}
	return a
}

// readAnswer reads an answer to its end; of one that never ends, the first message.
func readAnswer(response *http.Response) ([]byte, error) {
	if response.Header.Get("Content-Type") != eventMedia {
		return io.ReadAll(response.Body)
	}
	return readMessage(bufio.NewReader(response.Body))
}

// readMessage reads one message of a stream of events.
func readMessage(lines *bufio.Reader) (text []byte, err error) {
	for !bytes.HasSuffix(text, []byte("\n\n")) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return text, err
		}
		text = append(text, line...)
	}
	return text, nil
}

// streamed returns a stream of events as far as the first message that names the id.
func (w *world) streamed(t *testing.T, o operation, id string, changes ...change) string {
	t.Helper()
	ctx, stop := context.WithCancel(waittest.Context(t))
	defer stop()
	r, err := http.NewRequestWithContext(ctx, o.method, w.url+o.route, http.NoBody)
	require.NoError(t, err)
	for _, change := range changes {
		change(r)
	}
	response, err := w.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	lines := bufio.NewReader(response.Body)
	var stream strings.Builder
	for !strings.Contains(stream.String(), id) {
		text, err := readMessage(lines)
		stream.Write(text)
		require.NoError(t, err, "the stream ended before %s: %s", id, stream.String())
	}
	return stream.String()
}

// conforms requires that the contract names the status of an answer, and that the answer has the
// shape that it gives.
func conforms(t *testing.T, r *http.Request, a *answer) {
	t.Helper()
	require.NotEmpty(t, a.header.Get("X-Request-Id"))
	route, params, err := router().FindRoute(r)
	require.NoError(t, err, "%s %s", r.Method, r.URL)
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	require.NoError(t, err, "%s %s: %d %s", r.Method, r.URL, a.status, a.body)
}

// accepts requires that a request which the server accepted is one that the contract allows.
func accepts(t *testing.T, r *http.Request, body string) {
	t.Helper()
	route, params, err := router().FindRoute(r)
	require.NoError(t, err)
	sent := r.Clone(t.Context())
	sent.Body = io.NopCloser(strings.NewReader(body))
	require.NoError(t, openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
		Request: sent, PathParams: params, Route: route,
		Options: &openapi3filter.Options{MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}), "%s %s: %.300s", r.Method, r.URL, body)
}

var contract = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		panic(err)
	}
	return doc
})

var router = sync.OnceValue(func() routers.Router {
	for _, media := range []string{eventMedia, lineMedia} { // Texts, as far as the contract can say.
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.PlainBodyDecoder)
	}
	found, err := legacy.NewRouter(contract())
	if err != nil {
		panic(err)
	}
	return found
})

// operation is one operation of the contract.
type operation struct {
	*openapi3.Operation

	method, route string
	path          *openapi3.PathItem
}

func operations() []operation {
	var list []operation
	doc := contract()
	for _, route := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		item := doc.Paths.Value(route)
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			list = append(list, operation{item.Operations()[method], method, route, item})
		}
	}
	return list
}

// scope returns the scope that an operation needs, empty where it needs no key.
func (o operation) scope() string {
	security := contract().Security
	if o.Security != nil {
		security = *o.Security
	}
	if len(security) == 0 {
		return ""
	}
	return security[0]["bearer"][0]
}

// streams reports whether the answer or the request of an operation is a stream.
func (o operation) streams() bool {
	stream := func(c openapi3.Content) bool {
		return c[eventMedia] != nil || c[lineMedia] != nil
	}
	for _, r := range o.Responses.Map() {
		if stream(r.Value.Content) {
			return true
		}
	}
	return o.RequestBody != nil && stream(o.RequestBody.Value.Content)
}

// lines reports whether an operation is asked by lines.
func (o operation) lines() bool {
	return o.RequestBody != nil && o.RequestBody.Value.Content[lineMedia] != nil
}

// media returns the type of the bodies that an operation takes.
func (o operation) media() string {
	if o.lines() {
		return lineMedia
	}
	return "application/json"
}

// send calls an operation with a body of the media type that it takes.
func (w *world) send(t *testing.T, o operation, id, body string, changes ...change) *answer {
	t.Helper()
	if body != "" {
		changes = append([]change{header("Content-Type", o.media())}, changes...)
	}
	return w.call(t, o.method, o.at(id), body, changes...)
}

// examples returns the bodies that the contract shows for an operation; one empty body where it
// takes none.
func (o operation) examples(t *testing.T) []string {
	t.Helper()
	if o.RequestBody == nil {
		return []string{""}
	}
	var list []string
	for _, content := range o.RequestBody.Value.Content {
		values := []any{content.Example}
		for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
			values = append(values, content.Examples[name].Value.Value)
		}
		for _, value := range values {
			if value == nil {
				continue
			}
			if lines, is := value.(string); is {
				list = append(list, lines)
				continue
			}
			text, err := json.Marshal(value)
			require.NoError(t, err)
			list = append(list, string(text))
		}
	}
	require.NotEmpty(t, list, "%s has no example of a request", o.OperationID)
	return list
}

const minimal = `{"name":"p","url":"https://api.example.com/","baselineIntervalMs":60000}`

// object returns the id of a fresh object of the kind that a route is about; empty where the route
// has no id.
func (w *world) object(t *testing.T, o operation) string {
	t.Helper()
	switch {
	case strings.Contains(o.route, "/secrets/{name}"):
		require.Less(t, w.call(t, "PUT", o.at(""), `{"value":"v"}`).status, http.StatusBadRequest)
		return ""
	case strings.Contains(o.route, "/hosts/{host}"):
		w.call(t, "PATCH", "/v1/hosts/api.example.com", `{"windowMs":60000}`).is(t, http.StatusOK)
		return ""
	case strings.HasPrefix(o.route, "/v1/chains/{name}"):
		require.Less(t, w.call(t, "PUT", "/v1/chains/order", chain).status, http.StatusBadRequest)
		return ""
	case strings.HasPrefix(o.route, "/v1/chain-runs/"):
		return w.chainRun(t)
	case strings.Contains(o.route, "/budgets/{name}"):
		require.Less(t, w.call(t, "PUT", o.at(""), `{"budget":"600/h"}`).status, http.StatusBadRequest)
		return ""
	case strings.Contains(o.route, "/notice-rules/{name}"):
		w.call(t, "PUT", "/v1/notice-rules/shop-failures", noticeRule)
		return ""
	case strings.Contains(o.route, "/maintenance-windows/{name}"):
		w.call(t, "PUT", "/v1/maintenance-windows/database-upgrade", maintenanceWindow)
		return ""
	case strings.HasPrefix(o.route, "/v1/notices/"):
		return w.deadNotice(t, keystore.DefaultTenant)
	case strings.HasPrefix(o.route, "/v1/callbacks/"):
		return w.callback(t, "url")
	case !strings.Contains(o.route, "{id}"):
		return ""
	case strings.HasSuffix(o.route, "/noise"):
		return w.noisy(t)
	case strings.HasPrefix(o.route, "/v1/endpoints/"):
		return w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	case strings.HasPrefix(o.route, "/v1/keys/"):
		return w.call(t, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`).is(t, http.StatusCreated)["id"].(string)
	case strings.HasPrefix(o.route, "/v1/signing-keys/"):
		return w.call(t, "POST", "/v1/signing-keys", `{"overlapMs":0}`).is(t, http.StatusCreated)["id"].(string)
	case o.OperationID == "cancelRun":
		return w.liveRun(t)
	case strings.HasPrefix(o.route, "/v1/calls/"):
		return w.call(t, "POST", "/v1/calls", `{"url":"https://api.example.com/","delayMs":3600000}`).is(t, http.StatusAccepted)["id"].(string)
	case strings.HasPrefix(o.route, "/v1/dead-letters/"):
		return w.deadLetter(t)
	case strings.HasPrefix(o.route, "/v1/workers/"):
		return w.worker(t, "active")
	case strings.HasPrefix(o.route, "/v1/runs/"):
		return w.run(t, w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string))
	case strings.HasPrefix(o.route, "/v1/planner/sessions/"):
		session, _ := w.planned(t, keystore.DefaultTenant)
		return session
	case strings.HasPrefix(o.route, "/v1/planner/suggestions/"):
		_, suggestion := w.planned(t, keystore.DefaultTenant)
		return suggestion
	default:
		require.FailNow(t, "no object", "say in object how to make what %s is about", o.route)
		return ""
	}
}

// worker returns the id of a worker in a state.
func (w *world) worker(t *testing.T, state string) string {
	t.Helper()
	id := uuid.New()
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO workers (id, name, version, state, slots, busy, started_at, heartbeat_at)
		VALUES ($1, 'host', 'v1', $2, 4, 0, clock_timestamp(), clock_timestamp())`, id, state)
	require.NoError(t, err)
	return stats.WorkerName(id)
}

// noisy returns the id of an endpoint with noise that was found in its answers.
func (w *world) noisy(t *testing.T) string {
	t.Helper()
	id := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO noise (endpoint_id, path, found_at, pairs, gap_ms) VALUES ($1, '$.meta.generatedAt', now(), 10, 1004)`, strings.TrimPrefix(id, "ep_"))
	require.NoError(t, err)
	return id
}

// run returns the id of a finished run of an endpoint.
func (w *world) run(t *testing.T, of string) string {
	t.Helper()
	endpoint, now := uuid.MustParse(strings.TrimPrefix(of, "ep_")), time.Now()
	id := runs.NewID(now, endpoint, 1, 0)
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at,
		                  finished_at, status, reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated,
		                  version, failure_count)
		VALUES ($1, $2, $3, $4, 1, 'baseline-interval', 1, $3, $2, $2, $2, 'succeeded', 'ok', 0, 0, 0, 0, 0, 0, false, 1, 0)`,
		[16]byte(id), now.UTC().Truncate(time.Millisecond), endpoint, keystore.DefaultTenant)
	require.NoError(t, err)
	return id.String()
}

// liveRun returns the id of a run that is under way.
func (w *world) liveRun(t *testing.T) string {
	t.Helper()
	endpoint, now := uuid.New(), time.Now()
	id := runs.NewID(now, endpoint, 1, 0)
	tx, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica") // No move leads straight to a live run.
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `
		WITH made AS (
			INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
			SELECT $1, $3, version, created_at, updated_at, spec - 'key' FROM endpoints LIMIT 1
		)
		INSERT INTO schedules (endpoint_id, tenant_id, due_at, planned_at, slot, claim_token, claimed_by, claimed_at, version, lock_ms, attempt, source,
		                       failure_count, run_id, started_at, deadline_at)
		VALUES ($1, $3, $4, $4, $4, 1, $1, $4, 1, 65000, 1, 'baseline-interval', 0, $2, $4, $4)`,
		endpoint, [16]byte(id), keystore.DefaultTenant, now.UTC().Truncate(time.Millisecond))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	return id.String()
}

// callback returns the callback token of a suspended run of an endpoint with a callback policy.
func (w *world) callback(t *testing.T, policy string) string {
	t.Helper()
	w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated) // A live run copies its configuration.
	id, err := runs.ParseID(w.liveRun(t))
	require.NoError(t, err)
	var endpoint, secret [16]byte
	var token int64
	require.NoError(t, w.pool.QueryRow(t.Context(), `
		WITH suspended AS (
			UPDATE schedules SET claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff', due_at = now() + interval '1 h' WHERE run_id = $1
			RETURNING endpoint_id, claim_token
		), noted AS (
			INSERT INTO suspensions (run_id, endpoint_id, worker_id, wait_ms, exchange)
			SELECT $1, endpoint_id, gen_random_uuid(), 3600000, '{"statusCode": 202}' FROM suspended
		)
		UPDATE endpoints e SET spec = spec || jsonb_build_object('async', jsonb_build_object('timeoutMs', 3600000, 'callback', $2::text))
		FROM suspended s WHERE e.id = s.endpoint_id RETURNING e.id, e.digest_key, s.claim_token`, [16]byte(id), policy).Scan(&endpoint, &secret, &token))
	return callbacks.Token(secret[:], callbacks.Subject{
		EndpointID: endpoint,
		RunID:      id,
		Fence:      token,
	})
}

// at returns the path of an operation for an object; other placeholders get the example of the
// contract.
func (o operation) at(id string) string {
	path := strings.NewReplacer("{id}", id, "{token}", id).Replace(o.route)
	for _, p := range append(slices.Clone(o.path.Parameters), o.Parameters...) {
		if p.Value.Example != nil && p.Value.In == openapi3.ParameterInPath {
			path = strings.Replace(path, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example), 1)
		}
	}
	return path
}

const (
	noticeRule        = `{"event":"failures","failures":1,"channel":{"kind":"webhook","url":"https://hooks.example.com/"}}`
	maintenanceWindow = `{"startsAt":"2026-12-01T22:00:00Z","endsAt":"2026-12-02T02:00:00Z"}`
)

// deadNotice returns the id of a notice that was given up.
func (w *world) deadNotice(t *testing.T, tenant [16]byte) string {
	t.Helper()
	endpoint := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	episode, id := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders)
		VALUES ($1, $2, $1, 'shop-failures', $3, 'failures', now(), '{"failures": 3}', 'infinity', 0)`, episode, tenant, strings.TrimPrefix(endpoint, "ep_"))
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), `
		INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, ended_at, error)
		VALUES ($1, $2, $3, 'opened', 0, now(), now(), 'dead', 14, 1, false, now(), 'the receiver answered with status 500')`, id, tenant, episode)
	require.NoError(t, err)
	return "ntc_" + id.String()
}
