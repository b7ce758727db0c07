package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/internal/auth"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
	"rubato/internal/mcp"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/store/views"
)

const (
	adminKey = "rbt_an_admin_key_of_the_tests"
	writeKey = "rbt_a_writing_key_of_the_tests"
	readKey  = "rbt_a_reading_key_of_the_tests"
)

// anywhere lets every target be called; this package does not judge them.
type anywhere struct{}

func (anywhere) CheckURL(string) *errs.Field            { return nil }
func (anywhere) CheckHeader(string, string) *errs.Field { return nil }

// serve starts an API server with agents, over a Postgres of its own, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(t.Context(), pg.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	keys := keystore.NewKeys(db)
	for key, scope := range map[string]auth.Scope{adminKey: auth.Admin, writeKey: auth.Write, readKey: auth.Read} {
		require.NoError(t, keys.EnsureKey(t.Context(), auth.Params{Key: key, Name: string(scope), Scopes: []auth.Scope{scope}}))
	}
	authenticator, kept := auth.NewAuthenticator(keys), endpointstore.NewStore(endpointstore.NewStates(db, 0))
	api := httpapi.New(httpapi.Config{
		Auth: authenticator, Keys: auth.NewKeyring(keys, authenticator, 200), Endpoints: endpoints.NewService(kept, anywhere{}),
		Bulk: endpoints.NewBulk(kept, anywhere{}), Feed: views.NewFeed(db), Runs: history.NewRuns(db), Stats: views.NewStats(db),
		Audit: views.NewAuditLog(db), Once: keystore.NewIdempotency(db), Ready: db.Ping,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	t.Cleanup(api.Drain)
	agents := mcp.Handler(mcp.Config{API: api, Auth: authenticator, Logger: slog.New(slog.DiscardHandler), Version: "test"})
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle(mcp.Path, agents)
	mux.Handle(mcp.ReadOnlyPath, agents)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// signed sends a key with every request.
type signed struct {
	key  string
	next http.RoundTripper
}

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.key)
	return s.next.RoundTrip(r)
}

// connect returns an agent's session with a server.
func connect(t *testing.T, url, key string) *sdk.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: signed{key, transport}}, DisableStandaloneSSE: true,
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool and returns its answer.
func call(t *testing.T, s *sdk.ClientSession, tool string, arguments map[string]any) (answer map[string]any, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	text := r.Content[0].(*sdk.TextContent).Text
	if json.Unmarshal([]byte(text), &answer) != nil {
		answer = map[string]any{"text": text}
	}
	return answer, r.IsError
}

func names(t *testing.T, s *sdk.ClientSession) []string {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var out []string
	for _, tool := range list.Tools {
		out = append(out, tool.Name)
	}
	return out
}

func TestToolsRespectTheScopesOfTheKey(t *testing.T) {
	t.Parallel()
	url := serve(t)
	agent := connect(t, url+mcp.Path, writeKey)

	made, failed := call(t, agent, "create_endpoint", map[string]any{"body": map[string]any{
		"name": "Shop", "key": "shop", "url": "https://shop.example.com/health", "baselineIntervalMs": 60000, "labels": map[string]any{"team": "shop"},
	}})
	require.False(t, failed, made)
	id := made["id"].(string)

	list, failed := call(t, agent, "list_endpoints", map[string]any{"label": []string{"team:shop"}, "limit": 5, "fields": "id,name"})
	require.False(t, failed, list)
	require.Equal(t, []any{map[string]any{"id": id, "name": "Shop"}}, list["items"])

	hinted, failed := call(t, agent, "put_interval_hint", map[string]any{"id": id, "body": map[string]any{"intervalMs": 5000, "ttlMs": 60000, "reason": "sale"}})
	require.False(t, failed, hinted)
	why, failed := call(t, agent, "explain_endpoint", map[string]any{"id": id})
	require.False(t, failed, why)
	require.NotEmpty(t, why["steps"])

	stale, failed := call(t, agent, "patch_endpoint", map[string]any{"id": id, "ifMatch": `"99"`, "body": map[string]any{"name": "New"}})
	require.True(t, failed)
	require.Equal(t, "version_mismatch", stale["code"])
	bad, failed := call(t, agent, "create_endpoint", map[string]any{"body": map[string]any{"name": "", "url": "https://a.example/"}})
	require.True(t, failed)
	require.Len(t, bad["errors"], 2, "every bad field is named: %v", bad)

	gone, failed := call(t, agent, "archive_endpoint", map[string]any{"id": id})
	require.False(t, failed, gone)
	changes, failed := call(t, connect(t, url+mcp.Path, adminKey), "list_audit", map[string]any{"object": id})
	require.False(t, failed, changes)
	entry := changes["items"].([]any)[0].(map[string]any)
	require.Equal(t, "write", entry["actor"].(map[string]any)["name"], "the audit log names the agent's key")
	require.Equal(t, "127.0.0.1", entry["remoteAddress"])
}

func TestOfferedToolsFollowTheScopesOfTheKey(t *testing.T) {
	t.Parallel()
	url := serve(t)
	admin, write, read := names(t, connect(t, url+mcp.Path, adminKey)), names(t, connect(t, url+mcp.Path, writeKey)), names(t, connect(t, url+mcp.Path, readKey))
	require.Subset(t, admin, write)
	require.Subset(t, write, read)
	require.Contains(t, admin, "create_key")
	require.NotContains(t, write, "create_key")
	require.Contains(t, write, "pause_endpoint")
	require.NotContains(t, read, "pause_endpoint")
	require.Contains(t, read, "explain")
	for _, never := range []string{"import_endpoints", "export_endpoints", "watch_events", "get_health", "get_contract"} {
		require.NotContains(t, admin, never)
	}

	careful := connect(t, url+mcp.ReadOnlyPath, adminKey)
	require.Subset(t, names(t, careful), read)
	require.Contains(t, names(t, careful), "list_keys", "an admin may look at everything")
	for _, name := range names(t, careful) {
		require.NotRegexp(t, "^(create|patch|put|archive|pause|resume|run|reset|clear|cancel|revoke|rotate)_", name)
	}
	_, err := careful.CallTool(t.Context(), &sdk.CallToolParams{Name: "create_endpoint", Arguments: map[string]any{"body": map[string]any{}}})
	require.ErrorContains(t, err, "create_endpoint")
}

// TestAgentsActInTheirOwnNames has two agents with the same scopes and tools change something at
// the same time.
func TestAgentsActInTheirOwnNames(t *testing.T) {
	t.Parallel()
	url := serve(t) + mcp.Path
	admin := connect(t, url, adminKey)
	made, failed := call(t, admin, "create_key", map[string]any{"body": map[string]any{"name": "other", "scopes": []string{"write"}}})
	require.False(t, failed, made)

	var group errgroup.Group
	for name, key := range map[string]string{"write": writeKey, "other": made["secret"].(string)} {
		agent := connect(t, url, key)
		for range 10 {
			group.Go(func() error {
				answer, err := agent.CallTool(t.Context(), &sdk.CallToolParams{Name: "create_endpoint", Arguments: map[string]any{"body": map[string]any{
					"name": "of " + name, "url": "https://shop.example.com/health", "baselineIntervalMs": 60000,
				}}})
				if err == nil && answer.IsError {
					err = fmt.Errorf("creating an endpoint: %v", answer.Content[0])
				}
				return err
			})
		}
	}
	require.NoError(t, group.Wait())

	changes, failed := call(t, admin, "list_audit", map[string]any{"kind": "endpoint", "limit": 100})
	require.False(t, failed, changes)
	items := changes["items"].([]any)
	require.Len(t, items, 20)
	for _, item := range items {
		entry := item.(map[string]any)
		require.Equal(t, "of "+entry["actor"].(map[string]any)["name"].(string), entry["after"].(map[string]any)["name"])
	}
}

func TestArgumentsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	agent := connect(t, serve(t)+mcp.Path, writeKey)
	for why, given := range map[string]struct {
		tool      string
		arguments map[string]any
	}{
		"needs the argument id":               {"get_endpoint", nil},
		"does not know the arguments a, name": {"get_endpoint", map[string]any{"id": "ep_x", "name": 1, "a": 2}},
		"must be a string, a number":          {"get_endpoint", map[string]any{"id": map[string]any{}}},
		"must be an id, a key or a name":      {"get_endpoint", map[string]any{"id": "../keys"}},
		"not_found":                           {"get_endpoint", map[string]any{"id": "ep_x"}},
		"invalid_type":                        {"list_endpoints", map[string]any{"limit": "many"}},
		"out_of_range":                        {"list_endpoints", map[string]any{"limit": 501}},
		"the argument body":                   {"create_endpoint", nil},
		"does not know the arguments body":    {"get_endpoint", map[string]any{"id": "ep_x", "body": map[string]any{"name": "new"}}},
	} {
		answer, failed := call(t, agent, given.tool, given.arguments)
		require.True(t, failed, why)
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		require.Contains(t, string(text), why)
	}
}

// TestAFaultOfTheArgumentsHidesNoOther names all that can be judged of a call that is not made, and
// changes nothing.
func TestAFaultOfTheArgumentsHidesNoOther(t *testing.T) {
	t.Parallel()
	agent := connect(t, serve(t)+mcp.Path, writeKey)
	made, failed := call(t, agent, "create_endpoint", map[string]any{"body": map[string]any{
		"name": "before", "url": "https://shop.example.com/health", "baselineIntervalMs": 60000,
	}})
	require.False(t, failed, made)
	for name, given := range map[string]struct {
		tool      string
		arguments map[string]any
		want      []string
	}{
		"Query":    {"list_endpoints", map[string]any{"limit": 0, "state": "x", "zzz": 1}, []string{"does not know the arguments zzz", "limit: ", "state: "}},
		"AsTexts":  {"list_endpoints", map[string]any{"limit": "501", "state": "active", "zzz": 1}, []string{"zzz", "limit: "}},
		"NoNumber": {"list_endpoints", map[string]any{"limit": "many", "zzz": 1}, []string{"zzz", "limit: "}},
		"AllRight": {"list_endpoints", map[string]any{"limit": "5", "state": "active", "label": []string{"a=b", "c=d"}, "zzz": 1}, []string{"zzz"}},
		"Body": {
			"patch_endpoint",
			map[string]any{"id": made["id"], "zzz": 1, "body": map[string]any{"name": 5, "colour": "green", "jitterMs": -1, "catchUp": "sometimes"}},
			[]string{"does not know the arguments zzz", `property "colour"`, "body.catchUp: ", "body.jitterMs: ", "body.name: "},
		},
		"ARightBody": {"patch_endpoint", map[string]any{"id": made["id"], "zzz": 1, "body": map[string]any{"name": "after", "body": nil, "catchUp": "skip"}}, []string{"zzz"}},
		"NoID":       {"patch_endpoint", map[string]any{"body": map[string]any{"name": 5}}, []string{"needs the argument id", "body.name: "}},
		"NeitherIDNorBody": {
			"patch_endpoint",
			map[string]any{"id": "a/b", "ifMatch": map[string]any{}},
			[]string{"id, a key or a name", "argument ifMatch must be", "needs the argument body"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, failed := call(t, agent, given.tool, given.arguments)
			require.True(t, failed)
			text, _ := answer["text"].(string)
			lines := strings.Split(text, "\n")
			require.Len(t, lines, len(given.want), "%v", answer)
			for _, want := range given.want {
				require.Contains(t, text, want)
			}
			now, failed := call(t, agent, "get_endpoint", map[string]any{"id": made["id"]})
			require.False(t, failed)
			require.Equal(t, "before", now["name"])
		})
	}
}

// TestEveryToolReportsInvalidInput calls each tool with unknown arguments. The response names them,
// and the connection stays open.
func TestEveryToolReportsInvalidInput(t *testing.T) {
	t.Parallel()
	agent := connect(t, serve(t)+mcp.Path, adminKey)
	for _, tool := range names(t, agent) {
		answer, failed := call(t, agent, tool, map[string]any{"id": "no such id", "name": "no-such-name", "key": "k", "colour": "green", "body": map[string]any{"colour": "green"}})
		require.True(t, failed, tool)
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		require.Contains(t, string(text), "colour", "%s names the argument: %s", tool, text)
	}
}

func TestEveryRequestNeedsAKey(t *testing.T) {
	t.Parallel()
	url := serve(t) + mcp.Path
	for name, test := range map[string]struct {
		header map[string]string
		status int
		code   string
	}{
		"NoKey":    {nil, http.StatusUnauthorized, "unauthorized"},
		"WrongKey": {map[string]string{"Authorization": "Bearer rbt_somebody_elses_key_here"}, http.StatusUnauthorized, "unauthorized"},
		"NoScheme": {map[string]string{"Authorization": "Basic " + readKey}, http.StatusUnauthorized, "unauthorized"},
		"Browser":  {map[string]string{"Authorization": "Bearer " + readKey, "Origin": "https://evil.example"}, http.StatusForbidden, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer func() { _ = answer.Body.Close() }()
			require.Equal(t, test.status, answer.StatusCode)
			var problem map[string]any
			require.NoError(t, json.NewDecoder(answer.Body).Decode(&problem))
			require.Equal(t, test.code, problem["code"])
		})
	}
}

// TestABatchOfMessagesIsRefused: all of its answers would be held in memory at once.
func TestABatchOfMessagesIsRefused(t *testing.T) {
	t.Parallel()
	url := serve(t) + mcp.Path
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for body, status := range map[string]int{
		message:                              http.StatusOK,
		" \r\n\t" + message:                  http.StatusOK,
		"[" + message + "]":                  http.StatusBadRequest,
		" \r\n\t[" + message + "," + message: http.StatusBadRequest,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + readKey,
		} {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, "%s: %s", body, text)
		require.Equal(t, status == http.StatusBadRequest, strings.Contains(string(text), "bad_request"), "%s: %s", body, text)
	}
}

func TestToolsDescribeTheirInputAndEffects(t *testing.T) {
	t.Parallel()
	list, err := connect(t, serve(t)+mcp.Path, adminKey).ListTools(t.Context(), nil)
	require.NoError(t, err)
	by := map[string]*sdk.Tool{}
	for _, tool := range list.Tools {
		by[tool.Name] = tool
		about, route, _ := strings.Cut(tool.Description, "\n\nThis is `")
		require.Greater(t, len(about), len(tool.Title)+20, "%s says more than its title", tool.Name)
		require.Regexp(t, "^(GET|PUT|POST|PATCH|DELETE) /v1/", route, tool.Name)
		raw, err := json.Marshal(tool.InputSchema)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "#/components/", tool.Name)
		require.NotContains(t, string(raw), "x-ui", "%s: labels of the console are not for agents", tool.Name)
		var schema struct {
			Defs map[string]any `json:"$defs"`
		}
		require.NoError(t, json.Unmarshal(raw, &schema))
		for _, ref := range strings.Split(string(raw), `"#/$defs/`)[1:] {
			name, _, _ := strings.Cut(ref, `"`)
			require.NotNil(t, schema.Defs[name], "%s refers to %s", tool.Name, name)
		}
	}
	for name, tool := range by {
		var schema struct {
			Properties map[string]struct {
				Description string `json:"description"`
				Examples    []any  `json:"examples"`
			} `json:"properties"`
		}
		raw, err := json.Marshal(tool.InputSchema)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &schema))
		for argument, of := range schema.Properties {
			require.NotEmpty(t, of.Description, "%s: %s", name, argument)
			if argument == "body" || argument == "id" {
				require.NotEmpty(t, of.Examples, "%s: %s", name, argument)
			}
		}
	}
	require.True(t, *by["test_request"].Annotations.OpenWorldHint, "it sends what it is told to")
	require.False(t, *by["list_runs"].Annotations.OpenWorldHint)
	require.True(t, by["list_runs"].Annotations.ReadOnlyHint)
	require.True(t, by["explain"].Annotations.ReadOnlyHint)
	require.False(t, by["run_endpoint"].Annotations.ReadOnlyHint)
	require.True(t, *by["archive_endpoint"].Annotations.DestructiveHint)
	require.False(t, *by["patch_endpoint"].Annotations.DestructiveHint)
	require.True(t, by["put_endpoint_by_key"].Annotations.IdempotentHint)
}

func TestTheDocumentationIsThereToRead(t *testing.T) {
	t.Parallel()
	agent := connect(t, serve(t)+mcp.Path, readKey)
	list, err := agent.ListResources(t.Context(), nil)
	require.NoError(t, err)
	var uris []string
	for _, r := range list.Resources {
		uris = append(uris, r.URI)
		require.NotEmpty(t, r.Title, r.URI)
		read, err := agent.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: r.URI})
		require.NoError(t, err, r.URI)
		require.NotEmpty(t, read.Contents[0].Text)
	}
	for _, want := range []string{"rubato://openapi.yaml", "rubato://docs/guarantees.md", "rubato://docs/guides/tutorial.md"} {
		require.True(t, slices.Contains(uris, want), want)
	}
}

func TestAnAgentMayTalkThroughAPipe(t *testing.T) {
	t.Parallel()
	url := serve(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	in, theirOut := io.Pipe()
	theirIn, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- mcp.Remote{URL: url + "/", Key: readKey, Client: client}.Serve(t.Context(), mcp.Pipe{In: in, Out: out}, "test", true)
	}()
	agent, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(
		t.Context(), &sdk.IOTransport{Reader: theirIn, Writer: theirOut}, nil)
	require.NoError(t, err)
	require.NotContains(t, names(t, agent), "create_endpoint")
	answer, failed := call(t, agent, "list_endpoints", map[string]any{"limit": 1})
	require.False(t, failed, answer)
	require.Empty(t, answer["items"])
	refused, failed := call(t, agent, "list_keys", nil)
	require.True(t, failed, "the server has the last word")
	require.Equal(t, "insufficient_scope", refused["code"])
	require.NoError(t, agent.Close())
	require.NoError(t, <-done)
}

// TestAClosedInputStillGetsItsResponses sends a whole conversation at once, as from a file, with
// any ending.
func TestAClosedInputStillGetsItsResponses(t *testing.T) {
	t.Parallel()
	const asked = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"file","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_endpoints","arguments":{"limit":1}}}
{"jsonrpc":"2.0","id":3,"method":"no/such/method"}
`
	for name, tc := range map[string]struct {
		end     string
		garbage bool
	}{
		"Nothing":            {},
		"ALineThatBreaksOff": {`{"jsonrpc":"2.0","id":4,"meth`, true},
		"NoMessage":          {"bye\n", true},
		"TheSameQuestion":    {`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			var out output
			began := time.Now()
			err := mcp.Remote{URL: serve(t), Key: readKey, Client: client}.Serve(
				t.Context(), mcp.Pipe{In: io.NopCloser(strings.NewReader(asked + tc.end)), Out: &out}, "test", true)
			require.Equal(t, tc.garbage, err != nil, err)
			for _, id := range []string{`"id":1`, `"id":2`, `"id":3`} {
				require.Contains(t, out.String(), id)
			}
			require.Contains(t, out.String(), "structuredContent")
			require.Less(t, time.Since(began), 20*time.Second, "nobody waits for what has no answer")
		})
	}
}

// output records writes.
type output struct{ bytes.Buffer }

// Close does nothing.
func (*output) Close() error { return nil }

// TestAnArgumentReachesNoOtherRoute sends path separators and dots in every path argument, because
// arguments may come from untrusted text.
func TestAnArgumentReachesNoOtherRoute(t *testing.T) {
	t.Parallel()
	agent := connect(t, serve(t)+mcp.Path, adminKey)
	list, err := agent.ListTools(t.Context(), nil)
	require.NoError(t, err)
	tried, known := 0, map[string]bool{}
	for _, tool := range list.Tools {
		parts := regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(tool.Description[strings.LastIndex(tool.Description, "This is"):], -1)
		for _, part := range parts {
			values := []string{".."}
			if !known[part[1]] { // One tool of each kind of argument is tried with all of them.
				known[part[1]] = true
				values = append(values, "", ".", "../runs", "x/../..", "/")
			}
			for _, value := range values {
				arguments := map[string]any{"body": map[string]any{}}
				for _, p := range parts {
					arguments[p[1]] = "x"
				}
				arguments[part[1]] = value
				answer, failed := call(t, agent, tool.Name, arguments)
				require.True(t, failed, "%s of %q", tool.Name, value)
				require.Contains(t, answer["text"], "the argument "+part[1]+" of "+tool.Name+" must be an id, a key or a name", value)
				tried++
			}
		}
	}
	require.Greater(t, tried, 30, "most routes name something")
}

// anyKeyAuthenticator is an authenticator that accepts every key.
type anyKeyAuthenticator struct{}

func (anyKeyAuthenticator) AuthenticateFrom(context.Context, string, string) (auth.Principal, error) {
	return auth.Principal{Scopes: []auth.Scope{auth.Read}}, nil
}

// An answer above the limit of the client is an error, because half a page of endpoints would look
// like an answer.
func TestAnAnswerThatIsTooLongIsNotCut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("64 MiB of JSON take the race detector half a minute") //nolint:forbidigo // -short alone leaves it out.
	}
	const most = 32 << 20
	for size, fits := range map[int]bool{most: true, most + 1: false} {
		handler := mcp.Handler(mcp.Config{Auth: anyKeyAuthenticator{}, API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte{'9'}, size))
		})})
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		r, err := connect(t, server.URL+mcp.Path, "any").CallTool(t.Context(), &sdk.CallToolParams{Name: "list_endpoints", Arguments: map[string]any{"limit": 500}})
		require.NoError(t, err)
		text := r.Content[0].(*sdk.TextContent).Text
		require.Equal(t, fits, !r.IsError)
		if fits {
			require.Len(t, text, size)
		} else {
			require.Contains(t, text, "ask for less of it, by limit or fields")
		}
	}
}
