package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMalformedJSON(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, tc := range map[string]struct{ body, code, detail string }{
		"Truncated":     {`{`, "invalid_json", "column 2"},
		"Literal":       {"{\n  \"name\": nul\n}", "invalid_json", "line 2, column 14"},
		"Null":          {`null`, "invalid_json", "not null"},
		"Array":         {`[{}]`, "invalid_json", "not an array"},
		"String":        {`"x"`, "invalid_json", "not a string"},
		"Blank":         {` `, "invalid_json", "empty"},
		"TwoValues":     {`{}{}`, "invalid_json", "column 3"},
		"Trailing":      {minimal + `]`, "invalid_json", "more after"},
		"Comment":       {`{/**/}`, "invalid_json", "column 2"},
		"SingleQuotes":  {`{'name':'p'}`, "invalid_json", "column 2"},
		"NaN":           {`{"timeoutMs":NaN}`, "invalid_json", "column 14"},
		"LeadingZero":   {`{"timeoutMs":010}`, "invalid_json", "column 15"},
		"BOM":           {"\ufeff" + minimal, "invalid_json", "column 1"},
		"InvalidUTF8":   {"{\"name\":\"é\xc3\x28\"}", "invalid_json", "column 11"},
		"RawControl":    {"{\"name\":\"a\x00b\"}", "invalid_json", "column 11"},
		"Nested":        {strings.Repeat(`{"a":`, 11_000) + "1" + strings.Repeat("}", 11_000), "invalid_json", "depth"},
		"NestedArrays":  {`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "invalid_json", "deeper than 64"},
		"TooLarge":      {`{"body":"` + strings.Repeat("x", 600<<10) + `"}`, "body_too_large", "524288"},
		"CaseVariant":   {`{"name":"p","Name":"q","url":"https://a.example","baselineIntervalMs":1000}`, "malformed_fields", ""},
		"ForeignFields": {`{"` + strings.Repeat("x", 10_000) + `":1}`, "malformed_fields", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.call("POST", "/v1/endpoints", tc.body)
			require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, a.status)
			require.Equal(t, tc.code, a.problem().Code)
			require.Contains(t, a.problem().Detail, tc.detail)
			require.Less(t, len(a.body), 2000, "an answer does not repeat what was sent")
		})
	}
	require.Zero(t, s.store.writes)
}

func TestManyBadFieldsAreCounted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const count = 20_000
	repeat := func(format string) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimRight(b.String(), ",")
	}
	for name, body := range map[string]string{
		"Unknown":    `{` + repeat(`"x%d":1,`) + `}`,
		"Duplicates": `{` + strings.TrimRight(strings.Repeat(`"name":"p",`, count), ",") + `}`,
		"Headers":    `{"name":"p","url":"https://a.example","baselineIntervalMs":1000,"headers":{` + repeat(`"x %d":"",`) + `}}`,
		"Types":      `{"labels":{` + repeat(`"x%d":1,`) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := s.call("POST", "/v1/endpoints", body)
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.status)
			if name == "Headers" { // The number of entries is the only complaint.
				require.Equal(t, []string{"headers too_many"}, a.complaints())
				return
			}
			require.Len(t, a.complaints(), 100)
			require.Regexp(t, `the first 100 of (19999|2000\d)`, a.problem().Detail)
		})
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for value, status := range map[string]int{
		"application/json":                  http.StatusCreated,
		"Application/JSON; charset=UTF-8":   http.StatusCreated,
		"application/json; charset=latin1":  http.StatusUnsupportedMediaType,
		"application/merge-patch+json":      http.StatusUnsupportedMediaType,
		"application/yaml":                  http.StatusUnsupportedMediaType,
		"application/x-www-form-urlencoded": http.StatusUnsupportedMediaType,
		"multipart/form-data; boundary=x":   http.StatusUnsupportedMediaType,
		"text/json":                         http.StatusUnsupportedMediaType,
		"application/json;;;":               http.StatusUnsupportedMediaType,
		"":                                  http.StatusUnsupportedMediaType,
	} {
		a := s.call("POST", "/v1/endpoints", minimal, withHeader("Content-Type", value))
		require.Equal(t, status, a.status, "%q", value)
	}
	for _, encoding := range []string{"br", "gzip", "identity, gzip", ""} {
		a := s.call("POST", "/v1/endpoints", minimal, withHeader("Content-Encoding", encoding))
		require.Equal(t, http.StatusUnsupportedMediaType, a.status, "%q", encoding)
		require.Equal(t, "unsupported_media_type", a.problem().Code)
	}
	s.call("POST", "/v1/endpoints", minimal, withHeader("Content-Encoding", "identity")).is(http.StatusCreated)
}

func TestQueryParameters(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(minimal)
	for path, want := range map[string][]string{
		"/v1/endpoints?limit=0":                                      {"limit out_of_range"},
		"/v1/endpoints?limit=501":                                    {"limit out_of_range"},
		"/v1/endpoints?limit=-1":                                     {"limit out_of_range"},
		"/v1/endpoints?limit=99999999999":                            {"limit out_of_range"},
		"/v1/endpoints?limit=":                                       {"limit invalid_type"},
		"/v1/endpoints?limit=ten":                                    {"limit invalid_type"},
		"/v1/endpoints?limit=%2B5":                                   {"limit invalid_type"},
		"/v1/endpoints?limit=1e1":                                    {"limit invalid_type"},
		"/v1/endpoints?limit=1&limit=2":                              {"limit duplicate_parameter"},
		"/v1/endpoints?page=2":                                       {"page unknown_parameter"},
		"/v1/endpoints?Limit=2":                                      {"Limit unknown_parameter"},
		"/v1/endpoints?state=gone&limit=x&zz=1":                      {"limit invalid_type", "state invalid_value", "zz unknown_parameter"},
		"/v1/endpoints?label=team":                                   {"label invalid_value"},
		"/v1/endpoints?label=:x":                                     {"label invalid_value"},
		"/v1/endpoints?host=a/b":                                     {"host invalid_value"},
		"/v1/endpoints?label=a:1&label=a:2":                          {"label invalid_value"},
		"/v1/endpoints?name=%00":                                     {"name invalid_characters"},
		"/v1/endpoints?name=%ff":                                     {"name invalid_characters"},
		"/v1/endpoints?name=":                                        {"name required"},
		"/v1/endpoints?key=" + strings.Repeat("k", 101):              {"key too_long"},
		"/v1/endpoints/" + id + "?fields=name":                       {"fields unknown_parameter"},
		"/v1/endpoints/" + id + "/preview?n=0":                       {"n out_of_range"},
		"/v1/endpoints/" + id + "/preview?n=101":                     {"n out_of_range"},
		"/v1/runs?status=done":                                       {"status invalid_value"},
		"/v1/runs?from=yesterday&to=2026-02-30T00:00:00Z":            {"from invalid_time", "to invalid_time"},
		"/v1/runs?from=2026-02-01T1:00:00Z":                          {"from invalid_time"},
		"/v1/runs?from=0001-01-01T00:00:00Z":                         {"from out_of_range"},
		"/v1/runs?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z": {"to out_of_range"},
		"/v1/runs?endpointId=5":                                      {"endpointId invalid_id"},
		"/v1/runs?cursor=abc":                                        {"cursor invalid_cursor"},
		"/healthz?x=1":                                               {"x unknown_parameter"},
		"/v1/endpoints?fields=id,nom&cursor=abc&label=team&limit=0":  {"cursor invalid_cursor", "fields invalid_value", "label invalid_value", "limit out_of_range"},
		"/v1/endpoints?label=a:1&label=a:2&limit=0":                  {"label invalid_value", "limit out_of_range"},
		"/v1/runs?fields=nom&endpointId=5&cursor=%25":                {"cursor invalid_cursor", "endpointId invalid_id", "fields invalid_value"},
		"/v1/endpoints/" + id + "/runs?fields=nom&status=done":       {"fields invalid_value", "status invalid_value"},
		"/v1/secrets?cursor=abc&limit=0":                             {"cursor invalid_cursor", "limit out_of_range"},
	} {
		a := s.call("GET", path, "")
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", path, a.body)
		require.Equal(t, want, a.complaints(), path)
	}
	for _, path := range []string{"/v1/endpoints?%zz", "/v1/endpoints?limit=%f", "/v1/endpoints?limit=1;name=x"} {
		s.call("GET", path, "").is(http.StatusBadRequest)
	}
}

func TestBadIDs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.register(minimal)
	none, garbage := [2]any{http.StatusNotFound, "not_found"}, [2]any{http.StatusBadRequest, "invalid_id"}
	for id, want := range map[string][2]any{
		"123": none, "ep_": none, "ep_x": none, "run_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90": none, strings.Repeat("a", 5000): none,
		"ep_0193466f%2F": none, "ep_{0193466f-2a10-7c3e-9d41-5a2f6c7d8e9}": none, "%ff": garbage, "%00": garbage,
	} {
		for _, route := range []string{"GET ", "PATCH ", "DELETE ", "POST /pause", "POST /resume", "POST /run", "PUT /hints/interval", "GET /runs", "GET /preview", "GET /explain"} {
			method, suffix, _ := strings.Cut(route, " ")
			body := ""
			if method == "PATCH" || method == "PUT" {
				body = `{"intervalMs":60000,"ttlMs":60000}`
				if method == "PATCH" {
					body = `{}`
				}
			}
			a := s.call(method, "/v1/endpoints/"+id+suffix, body)
			require.Equal(t, want, [2]any{a.status, a.problem().Code}, "%s %.40s: %s", route, id, a.body)
		}
		a := s.call("GET", "/v1/runs/"+strings.Replace(id, "run_", "ep_", 1), "")
		require.Equal(t, want, [2]any{a.status, a.problem().Code}, id)
	}
}

// FuzzBody sends random bytes to every route with a body. No answer is a 5xx, and each one conforms
// to the contract.
func FuzzBody(f *testing.F) {
	for _, tc := range badFields() {
		f.Add([]byte(`{"name":"p","url":"https://a.example/","baselineIntervalMs":60000,"` + tc.field + `":` + tc.value[:min(len(tc.value), 100)] + `}`))
	}
	f.Add([]byte(full))
	f.Add([]byte(`{"at":"2098-11-21T10:00:00Z","inMs":1,"ttlMs":1,"expiresAt":"2098-11-21T10:00:00Z","reason":"x","until":null}`))
	f.Add([]byte(`{"baselineCron":"H H * * *","anchor":"2026-01-01T00:00:00Z","hints":{"oneShot":{"at":"1999-01-01T00:00:00Z"},"interval":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newService(t)
		path := "/v1/endpoints/" + s.register(minimal)
		for _, route := range [][2]string{
			{"POST", "/v1/endpoints"},
			{"PATCH", path},
			{"POST", path + "/pause"},
			{"PUT", path + "/hints/interval"},
			{"PUT", path + "/hints/one-shot"},
			{"POST", path + "/resume"},
			{"POST", "/v1/explain"},
		} {
			a := s.call(route[0], route[1], string(body), withHeader("Content-Type", "application/json"))
			require.Less(t, a.status, 500, "%s %s: %s", route[0], route[1], a.body)
		}
		s.call("GET", path, "").is(http.StatusOK)
	})
}

// TestParametersOfEveryKindAreNamedTogether: ids, labels, types and durations are reported together
// with parameters that a schema can check.
func TestParametersOfEveryKindAreNamedTogether(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for path, want := range map[string][]string{
		"/v1/runs?endpointId=x&limit=0&q=1":                                                 {"endpointId invalid_id", "limit out_of_range", "q unknown_parameter"},
		"/v1/runs?from=2026-02-02T00:00:00Z&to=2026-02-02T00:00:00Z&status=x":               {"status invalid_value", "to out_of_range"},
		"/v1/audit?actor=x&kind=x&from=2026-02-02T00:00:00Z&to=2026-02-02T01:00:00%2B02:00": {"actor invalid_id", "kind invalid_value", "to out_of_range"},
		"/v1/endpoints?label=a&label=:b&state=x":                                            {"label invalid_value", "label invalid_value", "state invalid_value"},
		"/v1/endpoints:export?label=a&q=1":                                                  {"label invalid_value", "q unknown_parameter"},
		"/v1/events?types=x&endpointId=x&q=1":                                               {"endpointId invalid_id", "q unknown_parameter", "types invalid_value"},
		"/v1/notices?endpointId=x&state=x":                                                  {"endpointId invalid_id", "state invalid_value"},
		"/v1/planner/sessions?endpointId=x&outcome=x":                                       {"endpointId invalid_id", "outcome invalid_value"},
		"/v1/planner/suggestions?endpointId=x&state=x":                                      {"endpointId invalid_id", "state invalid_value"},
	} {
		a := s.call("GET", path, "", withKey(adminKey))
		require.Equal(t, http.StatusBadRequest, a.status, path)
		require.Equal(t, want, a.complaints(), path)
	}
}

// TestParametersHeadersAndBodyAreNamedTogether covers every operation with a body. Bad parameters
// are also reported when the body is missing. No handler may skip them.
func TestParametersHeadersAndBodyAreNamedTogether(t *testing.T) {
	t.Parallel()
	for _, of := range everyRoute(ids{}) {
		if of.public || of.method == http.MethodGet || of.method == http.MethodDelete || of.id == "importEndpoints" {
			continue
		}
		t.Run(of.id, func(t *testing.T) {
			t.Parallel()
			s := newService(t, samples())
			is := ids{s.register(minimal), samples()[3].ID.String(), s.makeKey("read"), standingSigningKey}
			r, writes := routeOf(of.id, is), s.store.writes
			require.Subset(t, s.call(r.method, r.path+"?q=1", `{"zz":1}`, withKey(adminKey)).complaints(), []string{"q unknown_parameter", "zz unknown_field"})
			require.Equal(t, []string{"q unknown_parameter"}, s.call(r.method, r.path+"?q=1", `{`, withKey(adminKey)).complaints(), "no JSON")
			require.Subset(t, s.call(r.method, r.path+"?q=1", r.body, withKey(adminKey)).complaints(), []string{"q unknown_parameter"}, "nothing else is wrong")
			require.Equal(t, writes, s.store.writes)
		})
	}
}

// TestHeadersThatAreParametersAreNamedWithTheRest: bad headers are reported together with the other
// errors of a request.
func TestHeadersThatAreParametersAreNamedWithTheRest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(minimal)
	for _, tc := range []struct {
		method, path, body string
		header             map[string]string
		want               []string
	}{
		{"POST", "/v1/endpoints?q=1", `{"url":"https://a.example/","baselineIntervalMs":0}`, map[string]string{"Idempotency-Key": "a b"}, []string{
			"Idempotency-Key invalid_value", "q unknown_parameter", "name required", "baselineIntervalMs out_of_range",
		}},
		{"PATCH", "/v1/endpoints/" + id, `{"timeoutMs":0,"zz":1}`, map[string]string{"If-Match": "3"}, []string{
			"If-Match invalid_value", "zz unknown_field", "timeoutMs out_of_range",
		}},
		{"PUT", "/v1/endpoints/by-key/k", `{"name":"n","url":"x","baselineIntervalMs":1000}`, map[string]string{"If-Match": "3", "If-None-Match": "x"}, []string{
			"If-Match invalid_value", "If-None-Match invalid_value", "url url_scheme",
		}},
		{"DELETE", "/v1/endpoints/" + id + "?q=1", "", map[string]string{"If-Match": "3"}, []string{"If-Match invalid_value", "q unknown_parameter"}},
	} {
		var headers []request
		for name, value := range tc.header {
			headers = append(headers, withHeader(name, value))
		}
		a := s.call(tc.method, tc.path, tc.body, headers...)
		require.Equal(t, http.StatusBadRequest, a.status, "%s %s", tc.method, tc.path)
		require.Equal(t, tc.want, a.complaints(), "%s %s", tc.method, tc.path)
	}
}

// TestUnsupportedConditionsAreRefused sends unsupported conditional headers with every change. They
// are refused because a client that sends one relies on it.
func TestUnsupportedConditionsAreRefused(t *testing.T) {
	t.Parallel()
	known := map[string]string{ // Space-separated, by operation.
		"patchEndpoint": "If-Match", "archiveEndpoint": "If-Match", "putEndpointByKey": "If-Match If-None-Match",
		"putNoticeRule": "If-Match If-None-Match", "deleteNoticeRule": "If-Match", "putMaintenanceWindow": "If-None-Match",
	}
	s := newService(t, samples())
	is := ids{s.register(minimal), samples()[3].ID.String(), s.makeKey("read"), standingSigningKey}
	writes := s.store.writes
	for _, r := range everyRoute(is) {
		if r.public || r.method == http.MethodGet || r.scope == "read" {
			continue
		}
		for _, condition := range []string{"If-Match", "If-None-Match"} {
			if strings.Contains(" "+known[r.id]+" ", " "+condition+" ") {
				continue
			}
			a := s.call(r.method, r.path, r.body, withKey(adminKey), withHeader(condition, "*"))
			require.Equal(t, http.StatusBadRequest, a.status, "%s %s: %s", r.id, condition, a.body)
			require.Equal(t, []string{condition + " unknown_parameter"}, a.complaints(), r.id)
		}
	}
	require.Equal(t, writes, s.store.writes)
	s.call("POST", "/v1/explain", `{"baselineIntervalMs":1000}`, withHeader("If-None-Match", "*")).is(http.StatusOK)
}
