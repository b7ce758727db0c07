package console

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"rubato/client"
)

// visitor is a browser without a screen. It keeps cookies and follows no redirect.
type visitor struct {
	t     *testing.T
	world *world
	http  *http.Client
}

func (w *world) visitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &visitor{t: t, world: w, http: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// answer is the server's answer to a visitor.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; a form makes it a POST.
func (v *visitor) ask(path string, form url.Values, header ...string) answer {
	v.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.world.url+path, body)
	require.NoError(v.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := v.http.Do(r)
	require.NoError(v.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)
	return answer{status: response.StatusCode, header: response.Header, body: string(text)}
}

// signIn opens a session with a key.
func (v *visitor) signIn(key string) {
	v.t.Helper()
	a := v.ask("/console/signin", url.Values{"key": {key}})
	require.Equal(v.t, http.StatusSeeOther, a.status, a.body)
	require.Equal(v.t, http.StatusOK, v.ask("/", nil).status)
}

// out requires a redirect to the sign-in.
func (v *visitor) out() {
	v.t.Helper()
	a := v.ask("/", nil)
	require.Equal(v.t, http.StatusSeeOther, a.status)
	require.Equal(v.t, "/console/signin", a.header.Get("Location"))
}

// key makes a key with a scope.
func (w *world) keyWith(t *testing.T, scope string) client.KeyWithSecret {
	t.Helper()
	var made client.KeyWithSecret
	w.api(t, http.MethodPost, "/v1/keys", map[string]any{"name": scope + " key", "scopes": []string{scope}}, &made)
	return made
}

// sql runs a statement of the test's own.
func (w *world) sql(t *testing.T, statement string, args ...any) int64 {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), w.database)
	require.NoError(t, err)
	defer pool.Close()
	tag, err := pool.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
	return tag.RowsAffected()
}

func TestASessionEndsWithItsKeyItsTimeOrItsOwner(t *testing.T) {
	t.Parallel()
	w := setup(t)
	revoked, rotated := w.keyWith(t, "read"), w.keyWith(t, "read")
	a, b, c, d := w.visitor(t), w.visitor(t), w.visitor(t), w.visitor(t)
	a.signIn(revoked.Secret)
	b.signIn(rotated.Secret)
	c.signIn(w.key)
	d.signIn(w.key)

	w.api(t, http.MethodDelete, "/v1/keys/"+revoked.ID, nil, nil)
	a.out()
	w.api(t, http.MethodPost, "/v1/keys/"+rotated.ID+"/rotate", map[string]any{}, nil)
	b.out()
	require.Equal(t, "/console/signin", c.ask("/console/signout", url.Values{}).header.Get("Location"))
	c.out()
	require.Equal(t, http.StatusOK, d.ask("/", nil).status, "signing out ends one session, not those of others")
	require.Equal(t, int64(3), w.sql(t, "UPDATE console_sessions SET expires_at = now()"), "the one that was signed out of is gone")
	d.out()
	d.signIn(w.key)
	require.Zero(t, w.sql(t, "DELETE FROM console_sessions WHERE expires_at <= now()"), "a new session clears away what is over")
}

func TestSessionTokensAreStoredHashed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	at, err := url.Parse(w.url)
	require.NoError(t, err)
	hash := sha256.Sum256([]byte(v.http.Jar.Cookies(at)[0].Value))
	require.Equal(t, int64(1), w.sql(t, "DELETE FROM console_sessions WHERE hash = $1", hash[:]))
	v.out()
}

func TestTheLinkOpensOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := strings.TrimPrefix(w.link, w.url)
	require.Equal(t, http.StatusForbidden, w.visitor(t).ask("/console/enter?ticket=guess", nil).status)
	require.Equal(t, http.StatusForbidden, w.visitor(t).ask("/console/enter", nil).status)
	first := w.visitor(t)
	require.Equal(t, "/", first.ask(path, nil).header.Get("Location"))
	require.Equal(t, http.StatusOK, first.ask("/", nil).status)
	require.Equal(t, http.StatusForbidden, w.visitor(t).ask(path, nil).status)
	require.Equal(t, "/", first.ask(path, nil).header.Get("Location"), "who is in already is led in")
}

func TestEveryAnswerIsProtected(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	id := w.endpoint(t, "demo-prices").ID
	for _, path := range []string{
		"/", "/console/endpoints", "/console/endpoints/" + id, "/console/endpoints/" + id + "/data", "/console/endpoints/" + id + "/do/pause",
		"/console/runs", "/console/guarantees", "/console/nothing", "/console/assets/console.js", "/console/assets/htmx.js", "/console/signin",
	} {
		a := v.ask(path, nil)
		policy := a.header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'", path)
		require.NotContains(t, policy, "unsafe", path)
		require.Contains(t, policy, "frame-ancestors 'none'", path)
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), path)
		require.NotContains(t, a.body, " style=", path)
		require.NotContains(t, a.body, "<style", path)
	}
	a := w.visitor(t).ask("/console/signin", url.Values{"key": {w.key}})
	cookie := a.header.Get("Set-Cookie")
	require.Regexp(t, `^rubato_session=[A-Z2-7]{52}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`, cookie)
	a = w.visitor(t).ask("/console/signin", url.Values{"key": {w.key}}, "X-Forwarded-Proto", "https")
	require.Regexp(t, `^__Host-rubato_session=[A-Z2-7]{52}; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict$`, a.header.Get("Set-Cookie"))
}

func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	path := "/console/endpoints/" + w.endpoint(t, "demo-prices").ID + "/do/pause"
	require.Equal(t, http.StatusForbidden, v.ask(path, url.Values{"until": {""}}, "Sec-Fetch-Site", "cross-site").status)
	require.Equal(t, http.StatusForbidden, v.ask(path, url.Values{"until": {""}}, "Origin", "https://evil.example.com").status)
	require.Equal(t, client.EndpointStateActive, w.endpoint(t, "demo-prices").State)
	require.Equal(t, http.StatusSeeOther, v.ask(path, url.Values{"until": {""}}, "Sec-Fetch-Site", "same-origin").status)
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-prices").State)
}

func TestSigningInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for to, want := range map[string]string{
		"/console/runs?status=failed": "/console/runs?status=failed", "//evil.example.com/": "/", "https://evil.example.com": "/", `/\evil.example.com`: "/",
		"/console/signin": "/", "evil": "/", "": "/", "/console/overview/live": "/",
	} {
		a := w.visitor(t).ask("/console/signin", url.Values{"key": {w.key}, "to": {to}})
		require.Equal(t, want, a.header.Get("Location"), to)
	}
	require.Equal(t, http.StatusUnauthorized, w.visitor(t).ask("/console/signin", url.Values{"key": {"rbt_guess"}}).status)
	require.Empty(t, w.visitor(t).ask("/console/signin", url.Values{"key": {""}}).header.Get("Set-Cookie"))
}

// A read-only key sees everything and is offered no action. A form that it submits all the same is
// refused.
func TestReadOnlyKeyChangesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.keyWith(t, "read").Secret)
	e := w.endpoint(t, "demo-prices")
	page := v.ask("/console/endpoints/"+e.ID, nil)
	require.Equal(t, http.StatusOK, page.status)
	require.NotContains(t, page.body, "Run now")
	require.NotContains(t, v.ask("/console/endpoints", nil).body, "New endpoint</a>")
	for path, form := range map[string]url.Values{
		"/console/endpoints/" + e.ID + "/do/archive": {}, "/console/endpoints/" + e.ID: {"name": {"x"}, "url": {"https://example.com"}},
		"/console/endpoints/bulk": {"id": {e.ID}, "action": {"pause"}}, "/console/endpoints": {"name": {"x"}, "url": {"https://example.com"}, "baselineIntervalMs": {"1m"}},
		"/console/runs/run_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90/cancel": {},
	} {
		a := v.ask(path, form)
		require.Equal(t, http.StatusForbidden, a.status, path)
		require.Contains(t, strings.ToLower(a.body), "scope write", path)
	}
	require.Equal(t, e.Version, w.endpoint(t, "demo-prices").Version)
	require.Equal(t, client.EndpointStateActive, w.endpoint(t, "demo-prices").State)
}

func TestAnotherTenantSeesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.live(t, "demo-heartbeat", 2)
	const other = "rbt_of_another_tenant_0123456789"
	hash := sha256.Sum256([]byte(other))
	w.sql(t, "INSERT INTO tenants (id, name) VALUES ('00000000-0000-0000-0000-0000000000ff', 'other')")
	w.sql(t, `INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scopes)
		VALUES (gen_random_uuid(), '00000000-0000-0000-0000-0000000000ff', 'other', '', $1, '{admin}')`, hash[:])
	v := w.visitor(t)
	v.signIn(other)
	id := w.endpoint(t, "demo-heartbeat").ID
	var runs client.RunList
	w.api(t, http.MethodGet, "/v1/runs?limit=1", nil, &runs)
	for _, path := range []string{"/console/endpoints/" + id, "/console/endpoints/" + id + "/data", "/console/endpoints/" + id + "/edit", "/console/endpoints/" + id + "/do/pause", "/console/runs/" + runs.Items[0].ID} {
		require.Equal(t, http.StatusNotFound, v.ask(path, nil).status, path)
	}
	require.Equal(t, http.StatusNotFound, v.ask("/console/endpoints/"+id+"/do/archive", url.Values{}).status)
	require.Equal(t, http.StatusNotFound, v.ask("/console/endpoints/bulk", url.Values{"id": {id}, "action": {"pause"}, "reason": {"x"}}).status)
	for _, path := range []string{"/", "/console/endpoints", "/console/runs", "/console/overview/data"} {
		require.NotContains(t, v.ask(path, nil).body, "demo-", path)
	}
	require.Contains(t, v.ask("/console/guarantees", nil).body, "Checked runs</dt><dd>0</dd>")
	require.NotContains(t, v.ask("/console/overview/data", nil).body, `"succeeded":[1`)
}

// TestAuditLogNamesTheConsole submits a form twice. The audit log has one entry, with the key of
// the session.
func TestAuditLogNamesTheConsole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.keyWith(t, "write")
	v := w.visitor(t)
	v.signIn(key.Secret)
	e := w.endpoint(t, "demo-prices")
	form := url.Values{"once": {"a-form"}, "until": {""}, "reason": {"stock-taking"}}
	for range 2 {
		require.Equal(t, http.StatusSeeOther, v.ask("/console/endpoints/"+e.ID+"/do/pause", form, "X-Request-Id", "from-the-console").status)
	}
	var audit client.AuditList
	w.api(t, http.MethodGet, "/v1/audit?limit=50", nil, &audit)
	var found []client.AuditEntry
	for _, entry := range audit.Items {
		if entry.Action == "pause" && entry.ObjectID == e.ID {
			found = append(found, entry)
		}
	}
	require.Len(t, found, 1)
	require.Equal(t, key.ID, *found[0].Actor.KeyID)
	require.Equal(t, "write key", found[0].Actor.Name)
	require.Equal(t, "127.0.0.1", *found[0].RemoteAddress)
	require.Equal(t, "from-the-console", *found[0].RequestID)
	require.Equal(t, "stock-taking", *w.endpoint(t, "demo-prices").PauseReason)
}

// The second of two concurrent edits is refused with a message, and the first one stays.
func TestConcurrentEditIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	e := w.endpoint(t, "demo-prices")
	w.api(t, http.MethodPatch, "/v1/endpoints/"+e.ID, map[string]any{"description": "changed meanwhile"}, nil)
	a := v.ask("/console/endpoints/"+e.ID, url.Values{"version": {"1"}, "name": {"mine"}, "url": {e.URL}, "baseline": {"interval"}, "baselineIntervalMs": {"5s"}})
	require.Equal(t, http.StatusUnprocessableEntity, a.status)
	require.Contains(t, a.body, "changed since you opened it")
	require.Contains(t, a.body, "stored now: changed meanwhile", "the second sees what it would replace")
	require.Contains(t, a.body, "stored now: demo-prices")
	require.Contains(t, a.body, `value="mine"`, "and keeps what was typed")
	require.Equal(t, "demo-prices", w.endpoint(t, "demo-prices").Name)

	version := regexp.MustCompile(`name="version" value="(\d+)"`).FindStringSubmatch(a.body)
	require.NotNil(t, version)
	a = v.ask("/console/endpoints/"+e.ID, url.Values{"version": {version[1]}, "name": {"mine"}, "key": {"demo-prices"}, "url": {e.URL}, "baseline": {"interval"}, "baselineIntervalMs": {"5s"}})
	require.Equal(t, http.StatusSeeOther, a.status, "who has seen that may save all the same")
	require.Equal(t, "mine", w.endpoint(t, "demo-prices").Name)
}
