package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

const full = `{
	"name": "Report", "key": "report", "description": "Be gentle.\nAlways.", "labels": {"team": "ops"},
	"url": "https://api.example.com/r?x=1", "method": "POST",
	"headers": {"Content-Type": "application/json", "Authorization": "Bearer s3cret", "X-Api-Key": "k"}, "body": "{}",
	"baselineCron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "dst": {"gap": "skip", "overlap": "both"},
	"startAt": "2098-12-01T00:00:00+01:00", "catchUp": "all", "overlap": "queue", "minIntervalMs": 1000, "maxIntervalMs": 31622400000, "jitterMs": 0,
	"timeoutMs": 1000, "maxExecutionTimeMs": 2000, "maxResponseKb": 1, "followRedirects": 10, "success": "2xx,304",
	"retry": {"maxAttempts": 3, "backoffMs": 10, "maxBackoffMs": 20}, "idempotent": true,
	"query": {"page": "1"}, "tls": {"minVersion": "1.3", "serverName": "a.example.com"}, "sign": true, "responseTailKb": 4,
	"successRules": [{"type": "json", "jsonPath": "$.ok", "op": "equals", "value": true}, {"type": "latency", "maxLatencyMs": 500}],
	"redact": [{"jsonPath": "$.token"}, {"pattern": "[0-9]{16}", "replacement": "#"}], "planner": "suggest"}`

func TestCreate(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, body := range map[string]string{"minimal": minimal, "full": full} {
		a := s.call("POST", "/v1/endpoints", body)
		created := a.is(http.StatusCreated)
		require.Equal(t, `"1"`, a.header.Get("ETag"))
		require.Equal(t, "/v1/endpoints/"+created["id"].(string), a.header.Get("Location"))
		golden(t, name, a.body)

		read := s.call("GET", a.header.Get("Location"), "", withKey(readKey))
		delete(created, "warnings")
		require.Empty(t, cmp.Diff(created, read.is(http.StatusOK)))
		require.Equal(t, `"1"`, read.header.Get("ETag"))
	}
}

// golden compares an answer without ids with a file; UPDATE_GOLDEN=1 rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	got = regexp.MustCompile(`(ep|run)_[0-9a-f-]{36}`).ReplaceAll(got, []byte("${1}_id"))
	var v any
	require.NoError(t, json.Unmarshal(got, &v))
	pretty, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	file := filepath.Join("testdata", name+".json")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, append(pretty, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), string(pretty)+"\n"))
}

func TestNullMeansDefault(t *testing.T) {
	t.Parallel()
	s := newService(t)
	e := s.call("POST", "/v1/endpoints", `{"name":"p","url":"https://a.example/","baselineIntervalMs":1000,"baselineCron":null,
		"dst":{"gap":null},"retry":null,"timeoutMs":null,"labels":null,"catchUp":null,"method":null}`).is(http.StatusCreated)
	require.Equal(t, map[string]any{"gap": "run", "overlap": "once"}, e["dst"])
	require.InDelta(t, 30000, e["timeoutMs"], 0)
	require.Equal(t, "GET", e["method"])
}

func TestPatch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(full)

	t.Run("MergesAndClears", func(t *testing.T) {
		a := s.call("PATCH", path, `{"description":null,"labels":{"team":null,"tier":"1"},"headers":{"X-Api-Key":null,"X-New":"n"},
			"retry":{"maxAttempts":null},"maxIntervalMs":null,"dst":null,"timeoutMs":null}`, withHeader("Content-Type", "application/merge-patch+json"))
		e := a.is(http.StatusOK)
		require.Equal(t, `"2"`, a.header.Get("ETag"))
		require.NotContains(t, e, "description")
		require.NotContains(t, e, "maxIntervalMs")
		require.Equal(t, map[string]any{"tier": "1"}, e["labels"])
		require.Equal(t, map[string]any{"Authorization": "***", "Content-Type": "application/json", "X-New": "n"}, e["headers"])
		require.Equal(t, map[string]any{"maxAttempts": 1.0, "backoffMs": 10.0, "maxBackoffMs": 20.0}, e["retry"])
		require.Equal(t, map[string]any{"gap": "run", "overlap": "once"}, e["dst"])
		require.InDelta(t, 2000, e["timeoutMs"], 0, "the default follows maxExecutionTimeMs")
	})
	t.Run("KeepsSecretsThatItDoesNotMention", func(t *testing.T) {
		s.call("PATCH", path, `{"name":"other"}`).is(http.StatusOK)
		require.Equal(t, "Bearer s3cret", s.only().Spec.Headers["Authorization"])
	})
	t.Run("HeadersIgnoreCase", func(t *testing.T) {
		e := s.call("PATCH", path, `{"headers":{"x-new":"m","content-type":null,"authorization":null,"AUTHORIZATION":"Bearer other"}}`).is(http.StatusOK)
		require.Equal(t, map[string]any{"AUTHORIZATION": "***", "x-new": "m"}, e["headers"])
		require.Equal(t, "Bearer other", s.only().Spec.Headers["AUTHORIZATION"])
		a := s.call("PATCH", path, `{"headers":{"X-New":"1","x-new":"2"}}`)
		a.is(http.StatusUnprocessableEntity)
		require.Equal(t, []string{"headers.x-new header_duplicate"}, a.complaints())
		s.call("PATCH", path, `{"headers":{"X-New":"n","AUTHORIZATION":null,"Authorization":"Bearer s3cret"}}`).is(http.StatusOK)
	})
	t.Run("ChecksTheMergedResult", func(t *testing.T) {
		a := s.call("PATCH", path, `{"baselineIntervalMs":5000,"maxIntervalMs":999999,"minIntervalMs":1000000}`)
		a.is(http.StatusUnprocessableEntity)
		require.ElementsMatch(t, []string{"baselineCron schedule_ambiguous", "minIntervalMs clamp_order"}, a.complaints())
		s.call("PATCH", path, `{"baselineIntervalMs":5000,"baselineCron":null}`).is(http.StatusOK)
	})
	t.Run("RequiredFieldsCannotBeCleared", func(t *testing.T) {
		a := s.call("PATCH", path, `{"name":null,"url":null}`)
		a.is(http.StatusUnprocessableEntity)
		require.ElementsMatch(t, []string{"name required", "url required"}, a.complaints())
	})
	t.Run("TheMaskIsNoValue", func(t *testing.T) {
		a := s.call("PATCH", path, `{"headers":{"Authorization":"***","X-New":"***"}}`)
		a.is(http.StatusUnprocessableEntity)
		require.Equal(t, []string{"headers.Authorization masked_value", "headers.X-New masked_value"}, a.complaints())
		require.Equal(t, "Bearer s3cret", s.only().Spec.Headers["Authorization"])
	})
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	for i, tc := range []struct {
		tag    string
		status int
	}{
		{`"1"`, http.StatusOK},
		{`"1"`, http.StatusPreconditionFailed},
		{`"2"`, http.StatusOK},
		{`*`, http.StatusOK},
		{`"0"`, http.StatusPreconditionFailed},
		{`"04"`, http.StatusPreconditionFailed},
		{`"-4"`, http.StatusPreconditionFailed},
		{`W/"4"`, http.StatusPreconditionFailed},
		{`"abc"`, http.StatusPreconditionFailed},
		{`"99999999999999999999"`, http.StatusPreconditionFailed},
		{`4`, http.StatusBadRequest},
		{`"4", "5"`, http.StatusBadRequest},
		{`"4"`, http.StatusOK},
	} {
		a := s.call("PATCH", path, fmt.Sprintf(`{"name":"q%d"}`, i), withHeader("If-Match", tc.tag))
		require.Equal(t, tc.status, a.status, "%s: %s", tc.tag, a.body)
		if tc.status == http.StatusPreconditionFailed {
			require.Equal(t, "version_mismatch", a.problem().Code)
		}
	}
}

// TestArchiveWithIfMatch: an endpoint that has changed is not archived. An archived endpoint stays
// archived with any version.
func TestArchiveWithIfMatch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	s.call("PATCH", path, `{"name":"q"}`).is(http.StatusOK)
	for tag, status := range map[string]int{`"1"`: http.StatusPreconditionFailed, `W/"2"`: http.StatusPreconditionFailed, `2`: http.StatusBadRequest, "": http.StatusBadRequest} {
		require.Equal(t, status, s.call("DELETE", path, "", withHeader("If-Match", tag)).status, tag)
	}
	require.Equal(t, "active", s.call("GET", path, "").is(http.StatusOK)["state"])
	s.call("DELETE", path, "", withHeader("If-Match", `"2"`)).is(http.StatusNoContent)
	s.call("DELETE", path, "", withHeader("If-Match", `"2"`)).is(http.StatusNoContent)
	require.Equal(t, "archived", s.call("GET", path, "").is(http.StatusOK)["state"])
}

// TestHeadersAreGivenOnce: a repeated header is refused, because its value would be ambiguous.
func TestHeadersAreGivenOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	for _, tc := range [][3]string{
		{"PATCH", path, "If-Match"},
		{"DELETE", path, "If-Match"},
		{"PUT", "/v1/endpoints/by-key/p", "If-Match"},
		{"PUT", "/v1/endpoints/by-key/p", "If-None-Match"},
		{"POST", path + "/pause", "Idempotency-Key"},
		{"GET", "/v1/events", "Last-Event-ID"},
	} {
		a := s.call(tc[0], tc[1], "", func(r *http.Request) { r.Header[http.CanonicalHeaderKey(tc[2])] = []string{`"1"`, `"1"`} })
		require.Equal(t, http.StatusBadRequest, a.status, "%v", tc)
		require.Equal(t, []string{tc[2] + " duplicate_parameter"}, a.complaints(), "%v", tc)
	}
	require.Equal(t, 1, s.store.writes)
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	s.call("DELETE", path, "").is(http.StatusNoContent)
	s.call("DELETE", path, "").is(http.StatusNoContent)
	e := s.call("GET", path, "").is(http.StatusOK)
	require.Equal(t, "archived", e["state"])
	require.Nil(t, e["nextRunAt"])
	a := s.call("PATCH", path, `{"name":"q"}`)
	a.is(http.StatusConflict)
	require.Equal(t, "endpoint_archived", a.problem().Code)
	require.Empty(t, s.call("GET", "/v1/endpoints", "").is(http.StatusOK)["items"])
	require.Len(t, s.call("GET", "/v1/endpoints?state=archived", "").is(http.StatusOK)["items"], 1)
}

func TestKeyConflict(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.register(full)
	a := s.call("POST", "/v1/endpoints", full)
	a.is(http.StatusConflict)
	require.Equal(t, "key_taken", a.problem().Code)
}

func TestList(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for i := range 7 {
		s.register(fmt.Sprintf(`{"name":"n%d","key":"k%d","url":"https://a.example/","baselineIntervalMs":1000,"labels":{"team":"t%d","a:b":"c:d"}}`, i, i, i%2))
	}

	t.Run("PagesThroughAllOnce", func(t *testing.T) {
		var names []string
		query := url.Values{"limit": {"3"}}
		for pages := 0; ; pages++ {
			require.Less(t, pages, 3)
			list := s.call("GET", "/v1/endpoints?"+query.Encode(), "").is(http.StatusOK)
			for _, item := range list["items"].([]any) {
				names = append(names, item.(map[string]any)["name"].(string))
			}
			next, more := list["nextCursor"].(string)
			if !more {
				break
			}
			query.Set("cursor", next)
		}
		require.Equal(t, []string{"n6", "n5", "n4", "n3", "n2", "n1", "n0"}, names)
	})
	t.Run("Filters", func(t *testing.T) {
		for query, want := range map[string]int{
			"label=team:t0": 4, "label=team:t1&label=team:t1": 3, `label=a\:b:c:d`: 7, "label=a:b:c:d": 0, "key=k3": 1, "name=n1": 1, "name=n": 0, "state=paused": 0,
			"state=active": 7, "limit=500": 7,
		} {
			require.Len(t, s.call("GET", "/v1/endpoints?"+query, "").is(http.StatusOK)["items"], want, query)
		}
	})
	t.Run("CursorBelongsToItsFilters", func(t *testing.T) {
		next := s.call("GET", "/v1/endpoints?limit=1&state=active", "").is(http.StatusOK)["nextCursor"].(string)
		s.call("GET", "/v1/endpoints?limit=2&state=active&cursor="+next, "").is(http.StatusOK)
		for _, bad := range []string{"limit=1&cursor=" + next, "state=active&cursor=" + next + "A", "state=active&cursor=" + next[1:], "cursor=%25%25%25", "cursor="} {
			a := s.call("GET", "/v1/endpoints?"+bad, "")
			a.is(http.StatusBadRequest)
			require.Equal(t, []string{"cursor invalid_cursor"}, a.complaints(), bad)
			require.Equal(t, "invalid_cursor", a.problem().Code)
		}
		a := s.call("GET", "/v1/endpoints?limit=1&state=active&cursor="+next, "", withKey(otherKey))
		a.is(http.StatusBadRequest)
	})
}

// TestEditErrorsExplainHowToClearAField sets one of two exclusive fields while the other one is
// stored.
func TestEditErrorsExplainHowToClearAField(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(`{"name":"p","url":"https://a.example/","baselineIntervalMs":60000,"auth":{"type":"bearer","token":"{{secret \"t\"}}"}}`)
	for field, patch := range map[string]string{
		"auth.token":   `{"auth":{"type":"basic","username":"u","password":"{{secret \"p\"}}"}}`,
		"baselineCron": `{"baselineCron":"@daily"}`,
	} {
		a := s.call("PATCH", path, patch)
		a.is(http.StatusUnprocessableEntity)
		require.Len(t, a.problem().Errors, 1)
		fault := a.problem().Errors[0]
		require.Equal(t, field, fault.Field)
		require.Contains(t, fault.Message, "out, or set it to null to clear it")
	}
	s.call("PATCH", path, `{"auth":{"type":"basic","token":null,"username":"u","password":"{{secret \"p\"}}"},"baselineIntervalMs":null,"baselineCron":"@daily"}`).is(http.StatusOK)
}

func TestAnEmptyZoneIsRefusedInItsOwnWords(t *testing.T) {
	t.Parallel()
	a := newService(t).call("POST", "/v1/endpoints", `{"name":"p","url":"https://a.example/","baselineCron":"@daily","timezone":""}`)
	a.is(http.StatusUnprocessableEntity)
	require.Contains(t, a.problem().Errors[0].Message, "must not be empty: use an IANA name")
}
