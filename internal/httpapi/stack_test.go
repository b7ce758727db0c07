package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/endpoints"
	"rubato/internal/httpapi"
	endpointstore "rubato/internal/store/endpoints"
	historystore "rubato/internal/store/history"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	plannerstore "rubato/internal/store/planner"
	"rubato/internal/store/views"
)

// stack is a listening server with a Postgres of its own.
type stack struct {
	t   *testing.T
	api *httpapi.Server
	url string
	db  *pg.DB

	database string
	client   *http.Client
	logs     *bytes.Buffer
	endKeys  func() // after it no key is in force
}

// ending is a keyring with keys that can be revoked.
type ending struct {
	keyring

	over atomic.Bool
}

func (k *ending) FindKey(ctx context.Context, hash [sha256.Size]byte) (auth.Principal, error) {
	if k.over.Load() {
		hash = [sha256.Size]byte{}
	}
	return k.keyring.FindKey(ctx, hash)
}

func newStack(tb testing.TB) *stack {
	tb.Helper()
	url := devpgtest.NewDatabase(tb, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(tb.Context(), pg.Config{URL: url})
	require.NoError(tb, err)
	tb.Cleanup(db.Close)
	keys := &ending{keyring: keyring{
		auth.Hash(writeKey): {TenantID: keystore.DefaultTenant, KeyID: [16]byte{1}, Name: "writer", Scopes: []auth.Scope{auth.Write}},
		auth.Hash(readKey):  {TenantID: keystore.DefaultTenant, KeyID: [16]byte{2}, Name: "reader", Scopes: []auth.Scope{auth.Read}},
	}}
	authenticator := auth.NewAuthenticator(keys)
	kept := endpointstore.NewStore(endpointstore.NewStates(db, 0))
	s := &stack{db: db, database: url, client: &http.Client{Transport: &http.Transport{}}, logs: new(bytes.Buffer)}
	s.api = httpapi.New(httpapi.Config{
		Auth: authenticator, Endpoints: endpoints.NewService(kept, targets{}), Bulk: endpoints.NewBulk(kept, targets{}),
		Feed: views.NewFeed(db), Runs: historystore.NewRuns(db), Stats: views.NewStats(db), Planner: plannerstore.NewReviews(endpointstore.NewStates(db, 0), plannerstore.Limits{}),
		Undo:   plannerstore.NewReviews(endpointstore.NewStates(db, 0), plannerstore.Limits{}),
		Logger: slog.New(slog.NewTextHandler(s.logs, nil)),
		Ready:  db.Ping, Registerer: prometheus.NewRegistry(),
	})
	s.endKeys = func() {
		keys.over.Store(true)
		authenticator.Forget(auth.KeyID{1})
		authenticator.Forget(auth.KeyID{2})
	}
	server := httptest.NewUnstartedServer(s.api)
	server.Config.ReadTimeout, server.Config.ReadHeaderTimeout = 15*time.Second, 5*time.Second // As the API server has them.
	server.Start()
	tb.Cleanup(server.Close)
	tb.Cleanup(s.api.Drain)
	tb.Cleanup(s.client.CloseIdleConnections)
	s.url = server.URL
	if test, ok := tb.(*testing.T); ok {
		s.t = test
	}
	return s
}

// pool returns connections for statements of the test's own.
func (s *stack) pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.database)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (s *stack) request(tb testing.TB, method, path string, body io.Reader, changes ...request) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, s.url+path, body)
	require.NoError(tb, err)
	withKey(writeKey)(r)
	r.Header.Set("Content-Type", "application/json")
	for _, change := range changes {
		change(r)
	}
	return r
}

// call returns the status, the header and the whole body of an answer.
func (s *stack) call(tb testing.TB, method, path, body string, changes ...request) *answer {
	tb.Helper()
	response, err := s.client.Do(s.request(tb, method, path, strings.NewReader(body), changes...))
	require.NoError(tb, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(tb, err)
	return &answer{t: s.t, status: response.StatusCode, header: response.Header, body: text}
}

func asLines(r *http.Request) { r.Header.Set("Content-Type", "application/x-ndjson") }

// imported is the answer to an import.
type imported struct {
	results []result
	summary struct {
		Summary struct {
			Lines, Created, Updated, Unchanged, Valid, Failed, NextLine int
			Complete                                                    bool
		}
		Error *struct{ Code, Detail string }
	}
}

type result struct {
	Line            int
	Status, ID, Key string
	Changes         []string
	Error           *struct {
		Code   string
		Errors []struct{ Field, Code string }
	}
}

func (s *stack) imports(tb testing.TB, query, body string) imported {
	tb.Helper()
	a := s.call(tb, "POST", "/v1/endpoints:import"+query, body, asLines)
	require.Equal(tb, http.StatusOK, a.status, "%s", a.body)
	return readImport(tb, a.body)
}

func readImport(tb testing.TB, text []byte) imported {
	tb.Helper()
	var got imported
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(`"summary":{`)) {
			require.NoError(tb, json.Unmarshal(lines.Bytes(), &got.summary))
			continue
		}
		var r result
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &r), "%s", lines.Text())
		got.results = append(got.results, r)
	}
	require.NoError(tb, lines.Err())
	return got
}
