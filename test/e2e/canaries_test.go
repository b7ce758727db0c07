package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
	"rubato/internal/store/pg"
)

// canaries are secret texts that may reach only a target.
type canaries struct {
	all []string
}

// one returns a fresh canary.
func (c *canaries) one(what string) string {
	text := fmt.Sprintf("canary-%02d-%s-%x", len(c.all), what, 0xbeef00+len(c.all))
	c.all = append(c.all, text)
	return text
}

// found returns the canaries in a text, in any form in which they might be written.
func (c *canaries) found(text string) []string {
	var list []string
	for _, canary := range c.all {
		for _, form := range []string{
			canary, hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary)), url.QueryEscape(canary),
			strings.TrimRight(base64.RawURLEncoding.EncodeToString([]byte(canary)), "="), strings.ToUpper(canary), twice(canary), hex.EncodeToString([]byte(strings.ToUpper(canary))),
			hex.EncodeToString([]byte(twice(canary))),
		} {
			if strings.Contains(text, form) {
				list = append(list, canary)
				break
			}
		}
	}
	return list
}

// twice applies the filters base64 | base64 to a text.
func twice(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(text))))
}

// canaryInstallation is an installation full of canaries.
type canaryInstallation struct {
	*canaries
	*api

	t         *testing.T
	processes map[string]*process
	admins    map[string]string
	database  string // URL for the programs
	answers   bytes.Buffer
}

// keep stores a fresh canary as a secret and returns the reference to it.
func (v *canaryInstallation) keep(name string) string {
	v.t.Helper()
	v.ask(http.StatusCreated, "PUT", "/v1/secrets/"+name, map[string]any{"value": v.one(name)})
	return `{{secret "` + name + `"}}`
}

// ask sends a request, requires a status of the answer, and records the answer.
func (v *canaryInstallation) ask(want int, method, path string, body any) map[string]any {
	v.t.Helper()
	text, isText := body.(string)
	if !isText && body != nil {
		raw, err := json.Marshal(body)
		require.NoError(v.t, err)
		text = string(raw)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.URL+path, strings.NewReader(text))
	require.NoError(v.t, err)
	r.Header.Set("Authorization", "Bearer "+v.Key)
	if text != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(v.t, err)
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	require.NoError(v.t, err)
	require.Equal(v.t, want, res.StatusCode, "%s %s: %s", method, path, answer)
	var decoded map[string]any
	_ = json.Unmarshal(answer, &decoded) // Lines and metrics are no JSON.
	if secret, shown := decoded["secret"].(string); shown {
		v.all = append(v.all, secret) // It was shown once. From now on it is a canary.
		return decoded
	}
	v.answers.Write(answer)
	return decoded
}

// newAviary starts an API server and a worker that log at the level debug.
func newAviary(t *testing.T) *canaryInstallation {
	t.Helper()
	v := &canaryInstallation{canaries: &canaries{}, t: t, processes: map[string]*process{}, admins: map[string]string{"api": freeAddress(t), "worker": freeAddress(t)}}
	database, err := url.Parse(devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: migrate}))
	require.NoError(t, err)
	query := database.Query()
	query.Set("password", v.one("database"))
	database.RawQuery = query.Encode()
	v.database = database.String()
	sealing := (v.one("sealing") + strings.Repeat("x", 32))[:32]
	v.all = append(v.all, sealing)
	home, listen, key := t.TempDir(), freeAddress(t), v.one("bootstrap")
	env := []string{
		"DATABASE_URL=" + v.database, "RUBATO_SECRET_KEYS=k1:" + base64.StdEncoding.EncodeToString([]byte(sealing)),
		"RUBATO_LOG_LEVEL=debug", "RUBATO_LISTEN=" + listen, "RUBATO_BOOTSTRAP_API_KEY=" + key, "RUBATO_EGRESS_ALLOW=127.0.0.0/8",
	}
	for name, program := range map[string]string{"api": "api", "worker": "scheduler-worker"} {
		v.processes[name] = start(t, home, append(env, "RUBATO_ADMIN_LISTEN="+v.admins[name]), program)
	}
	v.processes["config"] = start(t, home, env, "rubato", "config")
	for name, admin := range v.admins {
		eventually(t, name+" to be ready", func() bool { return status("http://"+admin+"/readyz") == http.StatusOK })
	}
	v.api = connect(t, "http://"+listen, key)
	return v
}

// echo is a target that answers with its request, in the way that the path names. It counts
// requests that hold a canary.
func echo(t *testing.T, sees func(string) bool) (address string, seen *atomic.Int64) {
	t.Helper()
	seen = new(atomic.Int64)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf("%s %s\n%v\n%s", r.Method, r.URL, r.Header, body)
		if sees(text) {
			seen.Add(1)
		}
		w.Header().Set("Content-Type", "text/plain; echo="+url.QueryEscape(r.Header.Get("X-Secret")))
		w.Header().Set("ETag", `"`+r.Header.Get("X-Secret")+`"`)
		switch {
		case strings.HasPrefix(r.URL.Path, "/fail"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, "/redirect-again?"+r.URL.RawQuery+"&x="+r.Header.Get("X-Secret"), http.StatusTemporaryRedirect)
			return
		case strings.HasPrefix(r.URL.Path, "/forbidden"):
			http.Redirect(w, r, "http://10.0.0.1/"+r.Header.Get("X-Secret"), http.StatusTemporaryRedirect)
			return
		case strings.HasPrefix(r.URL.Path, "/slow"):
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		case strings.HasPrefix(r.URL.Path, "/cut"):
			w.Header().Set("Content-Length", "100000")
		case strings.HasPrefix(r.URL.Path, "/garbage"):
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(target.Close)
	return target.URL, seen
}

// spec returns an endpoint with a canary in every field that may refer to a secret. Endpoints with
// redirects have none in the body, because that is refused: the body would be sent along.
func (v *canaryInstallation) spec(name, address string) map[string]any {
	v.t.Helper()
	s := map[string]any{
		"name": name, "url": address, "method": "POST", "baselineIntervalMs": 3600000, "timeoutMs": 1500, "sign": true,
		"query":   map[string]string{"q": v.keep(name + "-query")},
		"headers": map[string]string{"X-Secret": v.keep(name + "-header"), "Content-Type": "application/json"},
		"auth":    map[string]any{"type": "bearer", "token": v.keep(name + "-token")},
	}
	if name == "redirected" || name == "forbidden" {
		s["followRedirects"], s["body"] = 1, `{"secret":"none"}`
	} else {
		s["body"] = `{"secret":"` + v.keep(name+"-body") + `"}`
	}
	return s
}

// others returns endpoints that carry secrets in other ways: by every kind of auth, through
// filters, with a secret validator.
func (v *canaryInstallation) others(address string) []map[string]any {
	v.t.Helper()
	token := v.one("access-token")
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
	}))
	v.t.Cleanup(issuer.Close)
	refuser := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, fmt.Sprint(r.Header, string(body)))
	}))
	v.t.Cleanup(refuser.Close)
	endpoint := func(name string, fields map[string]any) map[string]any {
		fields["name"], fields["url"], fields["baselineIntervalMs"] = name, address+"/"+name, 3600000
		return fields
	}
	oauth2 := func(at, name string) map[string]any {
		return map[string]any{"type": "oauth2", "tokenUrl": at, "clientId": v.keep(name + "-id"), "clientSecret": v.keep(name + "-secret")}
	}
	return []map[string]any{
		endpoint("basic", map[string]any{"auth": map[string]any{"type": "basic", "username": "ada", "password": v.keep("basic-password")}}),
		endpoint("keyed", map[string]any{"auth": map[string]any{"type": "apiKey", "header": "X-Partner", "value": v.keep("keyed-value")}}),
		endpoint("granted", map[string]any{"auth": oauth2(issuer.URL, "granted")}),
		endpoint("ungranted", map[string]any{"auth": oauth2(refuser.URL, "ungranted")}),
		endpoint("tagged", map[string]any{"conditional": true, "headers": map[string]string{"X-Secret": v.keep("tagged-header")}}),
		endpoint("filtered", map[string]any{"headers": map[string]string{
			"X-Upper": strings.Replace(v.keep("filtered-upper"), "}}", "| upper}}", 1), "X-Twice": strings.Replace(v.keep("filtered-twice"), "}}", "| base64 | base64}}", 1),
		}}),
		endpoint("judged", map[string]any{
			"headers":      map[string]string{"X-Secret": v.keep("judged-header")},
			"successRules": []map[string]any{{"type": "body", "op": "equals", "value": "nothing"}, {"type": "header", "header": "ETag", "op": "equals", "value": "nothing"}},
		}),
	}
}

// notify creates a rule with a channel that fails. The address and the token of the channel are
// secrets.
func (v *canaryInstallation) notify(address string) {
	v.t.Helper()
	v.ask(http.StatusCreated, "PUT", "/v1/secrets/hook-url", map[string]any{"value": address + "/fail/" + v.one("hook-url")})
	v.keep("hook-token")
	for _, kind := range []string{"webhook", "slack", "alertmanager"} {
		v.ask(http.StatusCreated, "PUT", "/v1/notice-rules/"+kind, map[string]any{
			"event": "failures", "failures": 1, "channel": map[string]any{"kind": kind, "urlSecret": "hook-url", "tokenSecret": "hook-token"},
		})
		v.ask(http.StatusOK, "POST", "/v1/notice-rules/"+kind+"/test", nil)
	}
	v.ask(http.StatusOK, "GET", "/v1/notice-rules", nil)
	v.ask(http.StatusOK, "GET", "/v1/notices", nil)
}

// dump reads every row of every table.
func (v *canaryInstallation) dump() string {
	v.t.Helper()
	conn, err := pgx.Connect(v.t.Context(), v.database)
	require.NoError(v.t, err)
	defer func() { _ = conn.Close(v.t.Context()) }()
	rows, err := conn.Query(v.t.Context(), "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition")
	require.NoError(v.t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(v.t, err)
	require.Contains(v.t, tables, "secrets")
	var all strings.Builder
	for _, table := range tables {
		rows, err := conn.Query(v.t.Context(), "SELECT to_jsonb(t)::text FROM "+pgx.Identifier{table}.Sanitize()+" AS t")
		require.NoError(v.t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(v.t, err)
		all.WriteString(strings.Join(lines, "\n"))
	}
	return all.String()
}

// TestSecretsAppearInNoOutput searches every output for secrets: answers, logs at the level debug,
// metrics, settings and the whole database. Canaries stand wherever a secret can, and go through
// success and every class of failure.
func TestSecretsAppearInNoOutput(t *testing.T) {
	t.Parallel()
	v := newAviary(t)
	address, seen := echo(t, func(text string) bool { return len(v.found(text)) > 0 })
	v.ask(http.StatusCreated, "POST", "/v1/signing-keys", nil)
	v.ask(http.StatusCreated, "POST", "/v1/signing-keys", nil)
	v.ask(http.StatusCreated, "POST", "/v1/keys", map[string]any{"name": "other", "scopes": []string{"read"}})
	closed := freeAddress(t)
	var specs []map[string]any
	for name, at := range map[string]string{
		"ok": address + "/ok", "failing": address + "/fail", "redirected": address + "/redirect", "forbidden": address + "/forbidden",
		"slow": address + "/slow", "cut": address + "/cut", "garbage": address + "/garbage", "nobody": "http://" + closed,
		"unresolved": "http://nowhere.invalid", "untrusted": strings.Replace(address, "http://", "https://", 1),
	} {
		specs = append(specs, v.spec(name, at))
	}
	specs = append(specs, v.others(address)...)
	require.GreaterOrEqual(t, len(v.all), 50)
	var ids []string
	for _, spec := range specs {
		ids = append(ids, v.ask(http.StatusCreated, "POST", "/v1/endpoints", spec)["id"].(string))
	}
	for i, id := range ids {
		runs := v.awaitRuns(t, id, 1)
		require.NotEqual(t, "template_failed", runs[0].ReasonCode, specs[i]["name"])
		v.ask(http.StatusOK, "GET", "/v1/runs/"+runs[0].ID, nil)
		v.ask(http.StatusOK, "GET", "/v1/runs/"+runs[0].ID+"/events", nil)
		v.ask(http.StatusOK, "POST", "/v1/endpoints/"+id+"/test", nil)
		for _, of := range []string{"", "/explain", "/preview", "/runs"} {
			v.ask(http.StatusOK, "GET", "/v1/endpoints/"+id+of, nil)
		}
	}
	require.GreaterOrEqual(t, int(seen.Load()), 6, "targets do get what is secret")
	v.notify(address)
	v.mistakes()
	for _, list := range []string{"/v1/endpoints", "/v1/endpoints:export", "/v1/runs", "/v1/audit?limit=500", "/v1/secrets", "/v1/signing-keys", "/v1/keys", "/v1/stats", "/v1/workers", "/readyz"} {
		v.ask(http.StatusOK, "GET", list, nil)
	}
	for _, admin := range v.admins {
		for _, page := range []string{"/metrics", "/readyz"} {
			_, text := fetch(t, "http://"+admin+page)
			v.answers.WriteString(text)
		}
	}
	for _, name := range []string{"api", "worker"} {
		v.processes[name].signal(t, syscall.SIGTERM)
	}
	for name, p := range v.processes {
		require.Equal(t, 0, p.wait(t, patience), name)
		require.NotEmpty(t, p.output(), name)
		require.Empty(t, v.found(p.output()), "what %s has written", name)
	}
	require.Empty(t, v.found(v.answers.String()), "answers")
	require.Empty(t, v.found(v.dump()), "the database")
}

// mistakes sends requests that are refused, with canaries in them.
func (v *canaryInstallation) mistakes() {
	v.t.Helper()
	wrong := v.one("wrong")
	v.ask(http.StatusBadRequest, "PUT", "/v1/secrets/x", map[string]any{"value": wrong, "vaule": wrong})
	v.ask(http.StatusBadRequest, "PUT", "/v1/secrets/x", `{"value":"`+wrong+`"`)
	v.ask(http.StatusBadRequest, "PUT", "/v1/secrets/x", `{"value":["`+wrong+`"]}`)
	v.ask(http.StatusUnprocessableEntity, "PUT", "/v1/secrets/NO", map[string]any{"value": wrong})
	v.ask(http.StatusUnprocessableEntity, "PUT", "/v1/secrets/x", map[string]any{"value": strings.Repeat(wrong, 3000)})
	v.ask(http.StatusUnprocessableEntity, "PUT", "/v1/secrets/x", map[string]any{"value": wrong, "description": "\u0000"})
	v.ask(http.StatusUnprocessableEntity, "POST", "/v1/endpoints", map[string]any{
		"name": "clear", "url": "https://api.example.com/", "baselineIntervalMs": 60000, "auth": map[string]any{"type": "bearer", "token": wrong},
	})
	v.ask(http.StatusOK, "PUT", "/v1/secrets/ok-header", map[string]any{"value": v.one("rotated")})
	v.ask(http.StatusConflict, "DELETE", "/v1/secrets/ok-header", nil)
	v.ask(http.StatusNoContent, "DELETE", "/v1/secrets/ok-header?force=true", nil)
}

// fetch gets a URL.
func fetch(t *testing.T, address string) (int, string) {
	t.Helper()
	res, err := http.Get(address)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}
