package endpoints_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/store/storetest"
)

// TestDatabaseNamesHostsAsWorkersDo compares url_host with the name under which workers keep the
// breaker of a URL.
func TestDatabaseNamesHostsAsWorkersDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hostOf := func(text string) string {
		return storetest.Query[string](t, b.Bundle, "SELECT coalesce(url_host($1), '')", text)
	}
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9-]{0,8}[A-Za-z0-9])?([.][A-Za-z]{2,5}){0,2}[.]?`),
			rapid.StringMatching(`(25[0-5]|1?[0-9]{1,2})([.](25[0-5]|1?[0-9]{1,2})){3}`),
			rapid.SampledFrom([]string{"[::1]", "[2001:DB8::0:1]", "[::ffff:10.0.0.7]", "[::FFFF:a00:7]", "[0:0:0:0:0:0:0:0]"}),
		).Draw(r, "name")
		text := rapid.SampledFrom([]string{"http", "https"}).Draw(r, "scheme") + "://" +
			rapid.SampledFrom([]string{"", "", "u@", "u:p@"}).Draw(r, "user") + name +
			rapid.SampledFrom([]string{"", "", ":80", ":443", ":8080", ":0080"}).Draw(r, "port") +
			rapid.SampledFrom([]string{"", "/", "/a:1/b@c", "?q=http://x:9/", "#f", "/{{run.id}}"}).Draw(r, "rest")
		if _, err := url.Parse(text); err != nil {
			r.Skip()
		}
		require.Equal(r, egress.Server(text), hostOf(text), text)
	})
	for _, text := range []string{"http://{{secret.host}}/", "http://a.{{secret.host}}:80/", "chain:order", "http://[fe80::1%25eth0]/", "http://a:99999999999/"} {
		require.Empty(t, hostOf(text), text)
	}
}

// TestEndpointsAreListedByHost finds endpoints by the host of their present URL.
func TestEndpointsAreListedByHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := func(target string) *endpoints.Endpoint {
		return b.Register(t, func(s *endpoints.Spec) { s.URL = target })
	}
	one, two, moved := at("https://API.example.com/a"), at("https://api.example.com:443/b"), at("https://other.example.com/")
	at("http://api.example.com/")
	listed := func(f endpoints.Filter) (ids []endpoints.ID) {
		f.TenantID, f.Host, f.Limit = storetest.Tenant.TenantID, "api.example.com:443", 10
		list, _, err := b.Service.List(t.Context(), f)
		require.NoError(t, err)
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		return ids
	}
	require.Equal(t, []endpoints.ID{two.ID, one.ID}, listed(endpoints.Filter{}))
	b.Edit(t, moved.ID, func(s *endpoints.Spec) { s.URL = "https://api.example.com/c" })
	require.Equal(t, []endpoints.ID{moved.ID, two.ID, one.ID}, listed(endpoints.Filter{}))
	b.Exec(t, "UPDATE schedules SET paused_until = '2199-01-01' WHERE endpoint_id = $1", one.ID)
	require.Equal(t, []endpoints.ID{one.ID}, listed(endpoints.Filter{State: "paused"}))
	require.Empty(t, listed(endpoints.Filter{State: "archived"}))
}

// TestEndpointWithoutAWorkerForItsTagsSaysSo reads the mark of the sweep with the endpoint.
func TestEndpointWithoutAWorkerForItsTagsSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	plain := b.Register(t, nil)
	tagged := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"net=internal"} })
	b.Exec(t, "UPDATE tag_sets SET unserved_since = $1 WHERE id <> 0", now)
	require.Zero(t, b.Get(t, plain.ID).State.UnroutableAt(now.Add(time.Hour)))
	state := b.Get(t, tagged.ID).State
	require.Zero(t, state.UnroutableAt(now.Add(29*time.Second)), "a restart of the only worker takes a moment")
	require.Equal(t, now, state.UnroutableAt(now.Add(30*time.Second)).UTC())
	b.Exec(t, "UPDATE tag_sets SET unserved_since = NULL")
	require.Zero(t, b.Get(t, tagged.ID).State.UnroutableAt(now.Add(time.Hour)))
}
