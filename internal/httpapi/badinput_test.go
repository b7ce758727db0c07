package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
)

// badField is an invalid value of one field.
type badField struct {
	field  string
	value  string // JSON
	status int
	want   string // the complaint, "field code"
}

func badFields() []badField {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	const meaning, syntax = http.StatusUnprocessableEntity, http.StatusBadRequest
	return []badField{
		{"status", `"paused"`, syntax, "status unknown_field"},
		{"lockUntil", `"2031-01-01T00:00:00Z"`, syntax, "lockUntil unknown_field"},
		{"tenant_id", `"x"`, syntax, "tenant_id unknown_field"},
		{"Name", `"q"`, syntax, "Name unknown_field"},
		{"", `1`, syntax, " unknown_field"},
		{"name", `""`, meaning, "name required"},
		{"name", `"\t"`, meaning, "name required"},
		{"name", `"a\u0007"`, meaning, "name invalid_characters"},
		{"name", `"a\r\nb"`, meaning, "name invalid_characters"},
		{"name", `"a\u0000b"`, meaning, "name invalid_characters"},
		{"name", long(500), meaning, "name too_long"},
		{"name", `[]`, syntax, "name invalid_type"},
		{"name", `5`, syntax, "name invalid_type"},
		{"name", `true`, syntax, "name invalid_type"},
		{"key", `""`, meaning, "key invalid_characters"},
		{"key", `"Not A Slug"`, meaning, "key invalid_characters"},
		{"description", long(4001), meaning, "description too_long"},
		{"url", `"api.example.com"`, meaning, "url url_scheme"},
		{"url", `"http://a.example/\u0000"`, meaning, "url url_invalid"},
		{"url", long(3000), meaning, "url too_long"},
		{"method", `"OPTIONS*"`, meaning, "method method_invalid"},
		{"method", `"post"`, meaning, "method method_invalid"},
		{"method", `""`, meaning, "method method_invalid"},
		{"headers", `{"A":"x\r\ny"}`, meaning, "headers.A header_invalid"},
		{"headers", `{"A B":"x"}`, meaning, "headers.A B header_invalid"},
		{"headers", `{"host":"x"}`, meaning, "headers.host header_forbidden"},
		{"headers", `{"A":{}}`, syntax, "headers.A invalid_type"},
		{"headers", `[]`, syntax, "headers invalid_type"},
		{"headers", `{"A":"***"}`, meaning, "headers.A masked_value"},
		{"labels", `{"a":1}`, syntax, "labels.a invalid_type"},
		{"body", long(300 << 10), meaning, "body too_long"},
		{"body", `"\u0000"`, meaning, "body invalid_characters"},
		{"baselineCron", `"* * * *"`, meaning, "baselineCron cron_invalid"},
		{"baselineCron", `""`, meaning, "baselineCron cron_invalid"},
		{"timezone", `"Europe/Nowhere"`, meaning, "timezone timezone_invalid"},
		{"timezone", `""`, meaning, "timezone timezone_invalid"},
		{"dst", `"run"`, syntax, "dst invalid_type"},
		{"dst", `{"gap":"sideways"}`, meaning, "dst.gap invalid_value"},
		{"dst", `{"gap":1,"x":2}`, syntax, "dst.x unknown_field"},
		{"startAt", `"2030-13-01T00:00:00Z"`, syntax, "startAt invalid_time"},
		{"endAt", `"2030-13-01T00:00:00Z"`, syntax, "endAt invalid_time"},
		{"maxRuns", `-1`, meaning, "maxRuns out_of_range"},
		{"startAt", `"2030-12-01"`, syntax, "startAt invalid_time"},
		{"startAt", `"+12345-01-01T00:00:00Z"`, syntax, "startAt invalid_time"},
		{"startAt", `"2030-12-01T1:00:00Z"`, syntax, "startAt invalid_time"},
		{"startAt", `"2030-12-01T01:00:00,5Z"`, syntax, "startAt invalid_time"},
		{"startAt", `"2030-12-01T01:00:00+24:00"`, syntax, "startAt invalid_time"},
		{"startAt", `1700000000`, syntax, "startAt invalid_type"},
		{"startAt", `"0001-01-01T00:00:00Z"`, meaning, "startAt out_of_range"},
		{"startAt", `"9999-12-31T23:59:59-23:00"`, meaning, "startAt out_of_range"},
		{"catchUp", `"sometimes"`, meaning, "catchUp invalid_value"},
		{"overlap", `"parallel"`, meaning, "overlap invalid_value"},
		{"baselineIntervalMs", `0`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `-0`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `500`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `-60000`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `1000000000000000`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `18446744133710`, meaning, "baselineIntervalMs out_of_range"}, // 60 s, were it to overflow.
		{"baselineIntervalMs", `9223372036855`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `9223372036854775807`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `-9223372036854775808`, meaning, "baselineIntervalMs out_of_range"},
		{"baselineIntervalMs", `99999999999999999999`, syntax, "baselineIntervalMs invalid_type"},
		{"baselineIntervalMs", `"1m"`, syntax, "baselineIntervalMs invalid_type"},
		{"baselineIntervalMs", `1000.25`, syntax, "baselineIntervalMs invalid_type"},
		{"baselineIntervalMs", `1000.0`, syntax, "baselineIntervalMs invalid_type"},
		{"baselineIntervalMs", `1e3`, syntax, "baselineIntervalMs invalid_type"},
		{"minIntervalMs", `1`, meaning, "minIntervalMs out_of_range"},
		{"minIntervalMs", `0`, meaning, "minIntervalMs out_of_range"},
		{"maxIntervalMs", `31536000001000`, meaning, "maxIntervalMs out_of_range"},
		{"jitterMs", `-1`, meaning, "jitterMs out_of_range"},
		{"timeoutMs", `0`, meaning, "timeoutMs out_of_range"},
		{"timeoutMs", `60001`, meaning, "timeoutMs timeout_order"},
		{"maxExecutionTimeMs", `3600000`, meaning, "maxExecutionTimeMs out_of_range"},
		{"maxExecutionTimeMs", `0`, meaning, "maxExecutionTimeMs out_of_range"},
		{"maxResponseKb", `-1`, meaning, "maxResponseKb out_of_range"},
		{"maxResponseKb", `5000000000`, meaning, "maxResponseKb out_of_range"},
		{"followRedirects", `11`, meaning, "followRedirects out_of_range"},
		{"success", `"6xx"`, meaning, "success invalid_value"},
		{"success", `""`, meaning, "success invalid_value"},
		{"retry", `{"maxAttempts":0}`, meaning, "retry.maxAttempts out_of_range"},
		{"retry", `{"maxAttempts":"3"}`, syntax, "retry.maxAttempts invalid_type"},
		{"retry", `{"backoffMs":100000}`, meaning, "retry.backoffMs backoff_order"},
		{"idempotent", `"true"`, syntax, "idempotent invalid_type"},
		{"idempotent", `1`, syntax, "idempotent invalid_type"},
	}
}

// TestMalformedJSONIsRefusedWithItsPosition: malformed JSON is refused as a whole, with the
// position of the error.
func TestMalformedJSONIsRefusedWithItsPosition(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const half = ": the escape is one half of a surrogate pair, which is no character; send the other half with it"
	for body, want := range map[string]string{
		"\xef\xbb\xbf" + minimal:             "column 1: the text begins with a byte order mark; send UTF-8 without one",
		`{"name":"\ud800"}`:                  "column 10" + half,
		`{"name":"a\udc00"}`:                 "column 11" + half,
		`{"name":"\uD83D\uD83D\uDE00"}`:      "column 10" + half,
		`{"name":"\ude00\ud83d"}`:            "column 10" + half,
		`{"name":"\ud83d\n\ude00"}`:          "column 10" + half,
		"{\n\"na\\udbffme\":1}":              "line 2, column 4" + half,
		`{"name":"\ud83d\ude00 \ud83d x"}`:   "column 23" + half,
		`{"labels":{"a":["\ud83d\\ude00"]}}`: "column 18" + half,
	} {
		a := s.call("POST", "/v1/endpoints", body)
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", body, a.body)
		require.Equal(t, "invalid_json", a.problem().Code, body)
		require.Equal(t, want, a.problem().Detail, body)
	}
	require.Zero(t, s.store.writes)
	made := s.call("POST", "/v1/endpoints", `{"name":"\ud83d\ude00 \\ud800 \u00e4\uFFFD","url":"https://a.example/","baselineIntervalMs":60000}`).is(http.StatusCreated)
	require.Equal(t, "\U0001F600 \\ud800 \u00e4\uFFFD", made["name"])
}

// TestUnknownFieldsSuggestASimilarOne: the error for an unknown field suggests a known one if
// exactly one is similar.
func TestUnknownFieldsSuggestASimilarOne(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, meant := range map[string]string{
		"NAME": "name", "time_out_ms": "timeoutMs", "cron": "baselineCron", "timeout": "timeoutMs", "desciption": "description",
		"lables": "labels", "header": "headers", "intervalMs": "", "interval": "", "nonsense": "", "x": "",
	} {
		a := s.call("POST", "/v1/endpoints", `{"name":"p","url":"https://a.example/","baselineIntervalMs":60000,"`+name+`":1}`)
		require.Equal(t, []string{name + " unknown_field"}, a.complaints())
		want := "is not a field here"
		if meant != "" {
			want += "; use " + meant
		}
		require.Equal(t, want, a.problem().Errors[0].Message, name)
	}
}

// TestMalformedKeysAreRefused requires an error that names the key, without a lookup in the store.
func TestMalformedKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, key := range []string{"%00", "%ff", "a%00b", "A", "a%2Fb", "%C3%A4", strings.Repeat("x", 101)} {
		a := s.call("PUT", "/v1/endpoints/by-key/"+key, minimal)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", key, a.body)
		require.Contains(t, a.complaints()[0], "key ", key)
	}
	require.Zero(t, s.store.writes)
}

// TestBadFields sends every invalid value in a registration and in a patch. Each error names that
// field alone, apart from accompanying bad fields.
func TestBadFields(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	before := s.store.writes
	for _, tc := range badFields() {
		base := map[string]json.RawMessage{"name": []byte(`"p"`), "url": []byte(`"https://api.example.com/"`)}
		patch := map[string]json.RawMessage{tc.field: []byte(tc.value)}
		if tc.field == "baselineCron" {
			patch["baselineIntervalMs"] = []byte("null")
		} else {
			base["baselineIntervalMs"] = []byte("60000")
		}
		maps.Copy(base, patch)
		for method, body := range map[string]map[string]json.RawMessage{"POST": base, "PATCH": patch} {
			target := "/v1/endpoints"
			if method == "PATCH" {
				target = path
			}
			raw, err := json.Marshal(body)
			require.NoError(t, err)
			a := s.call(method, target, string(raw))
			name := fmt.Sprintf("%s %s %.60s: %s", method, tc.field, tc.value, a.body)
			require.Equal(t, tc.status, a.status, name)
			require.Contains(t, a.complaints(), tc.want, name)
			if tc.want != "dst.x unknown_field" {
				require.Len(t, a.complaints(), 1, name)
			}
		}
	}
	require.Equal(t, before, s.store.writes, "nothing is written on any 4xx")
}

// A success rule compares with any JSON scalar.
func TestRulesCompareWithAnyScalar(t *testing.T) {
	t.Parallel()
	s := newService(t)
	body := func(value string) string {
		return `{"name":"p","url":"https://a.example/","baselineIntervalMs":60000,"successRules":[{"type":"json","jsonPath":"$.n","value":` + value + `}]}`
	}
	for value, want := range map[string]any{"100": 100.0, "-1.5": -1.5, "2e3": 2000.0, `"ok"`: "ok", "false": false, "null": nil, "0.10": 0.1, "1e19": 1e19, "10000000000000000000": 1e19} {
		made := s.call("POST", "/v1/endpoints", body(value)).is(http.StatusCreated)
		require.Equal(t, want, made["successRules"].([]any)[0].(map[string]any)["value"], value)
		patch := `{"successRules":[{"type":"json","jsonPath":"$.m","value":` + value + `}]}`
		edited := s.call("PATCH", "/v1/endpoints/"+made["id"].(string), patch).is(http.StatusOK)
		require.Equal(t, want, edited["successRules"].([]any)[0].(map[string]any)["value"], value)
	}
	for _, value := range []string{"[1]", "{}", "1e400", "9007199254740993", "10000000000000000001", "0.1000000000000000000001", "1e-400"} {
		require.Equal(t, []string{"successRules[0].value invalid_type"}, s.call("POST", "/v1/endpoints", body(value)).complaints(), value)
	}
}

func TestSeveralBadFieldsAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	for name, tc := range map[string]struct {
		method, target, body string
		status               int
		want                 []string
	}{
		"AllThatCannotBeReadAndAllThatBreaksRules": {
			"POST", "/v1/endpoints", `{"nope":1,"name":5,"url":"ftp://x","timeoutMs":"1s","minIntervalMs":2000,"maxIntervalMs":1000,"retry":{"maxAttempts":99,"x":0}}`,
			http.StatusBadRequest,
			[]string{
				"nope unknown_field", "name invalid_type", "timeoutMs invalid_type", "retry.x unknown_field", "retry.maxAttempts out_of_range",
				"url url_scheme", "baselineIntervalMs schedule_required", "minIntervalMs clamp_order",
			},
		},
		"OnlyRules": {
			"POST", "/v1/endpoints", `{"jitterMs":-1,"headers":{"host":"a"},"body":"\u0000"}`, http.StatusUnprocessableEntity,
			[]string{
				"name required", "url required", "jitterMs out_of_range", "headers.host header_forbidden",
				"baselineIntervalMs schedule_required", "body invalid_characters",
			},
		},
		"NothingFollowsFromWhatWasNotRead": {
			"POST", "/v1/endpoints", `{"name":"p","url":"http://a.example","baselineCron":7,"maxExecutionTimeMs":"x","timeoutMs":1800000,"retry":{"backoffMs":9000000,"maxBackoffMs":[]}}`,
			http.StatusBadRequest,
			[]string{"baselineCron invalid_type", "maxExecutionTimeMs invalid_type", "retry.maxBackoffMs invalid_type", "retry.backoffMs out_of_range"},
		},
		"Duplicates": {
			"POST", "/v1/endpoints", `{"name":"p","name":"q","url":"http://a.example","baselineIntervalMs":1,"retry":{"backoffMs":1,"backoffMs":2}}`,
			http.StatusBadRequest,
			[]string{"name duplicate_field", "retry.backoffMs duplicate_field", "baselineIntervalMs out_of_range"},
		},
		"Patch": {
			"PATCH", path, `{"id":"ep_1","headers":{"A":5,"host":"x"},"maxIntervalMs":2,"name":null}`, http.StatusBadRequest,
			[]string{"id unknown_field", "headers.A invalid_type", "headers.host header_forbidden", "maxIntervalMs out_of_range", "name required"},
		},
		"Pause": {
			"POST", path + "/pause", `{"until":"tomorrow","reason":"` + strings.Repeat("x", 501) + `","x":1}`, http.StatusBadRequest,
			[]string{"until invalid_time", "x unknown_field", "reason too_long"},
		},
		"IntervalHint": {
			"PUT", path + "/hints/interval", `{"intervalMs":1,"ttlMs":0,"endpointId":"ep_1"}`, http.StatusBadRequest,
			[]string{"endpointId unknown_field", "intervalMs out_of_range", "ttlMs out_of_range"},
		},
		"NothingFollowsFromTheLifeOfAHintThatWasNotRead": {
			"PUT", path + "/hints/interval", `{"intervalMs":1000,"expiresAt":"tomorrow"}`, http.StatusBadRequest,
			[]string{"expiresAt invalid_time"},
		},
		"NothingFollowsFromTheInstantOfAHintThatWasNotRead": {
			"PUT", path + "/hints/one-shot", `{"inMs":"5m","ttlMs":60000}`, http.StatusBadRequest,
			[]string{"inMs invalid_type"},
		},
		"NothingFollowsFromABeginThatIsMissing": {
			"PUT", "/v1/maintenance-windows/w", `{"endsAt":"2098-12-01T00:00:00Z"}`, http.StatusUnprocessableEntity,
			[]string{"startsAt required"},
		},
		"OneShotHint": {
			"PUT", path + "/hints/one-shot", `{"at":5,"inMs":-1,"reason":"\u0000","ttlMs":1,"expiresAt":"2098-12-01T00:00:00Z"}`, http.StatusBadRequest,
			[]string{"at invalid_type", "inMs out_of_range", "reason invalid_characters", "expiresAt ambiguous"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.call(tc.method, tc.target, tc.body)
			require.Equal(t, tc.status, a.status, "%s", a.body)
			require.ElementsMatch(t, tc.want, a.complaints())
		})
	}
	require.Equal(t, 1, s.store.writes)
}

func TestBadPausesAndHints(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	const meaning, syntax = http.StatusUnprocessableEntity, http.StatusBadRequest
	for _, tc := range []struct {
		method, route, body string
		status              int
		want                []string
	}{
		{"POST", "/pause", `{"until":"1999-01-01T00:00:00Z"}`, meaning, []string{"until out_of_range"}},
		{"POST", "/pause", `{"until":"0001-01-01T00:00:00Z"}`, meaning, []string{"until out_of_range"}},
		{"POST", "/pause", `{"until":"2200-01-01T00:00:00Z"}`, meaning, []string{"until out_of_range"}},
		{"POST", "/pause", `{"until":"+12345-01-01T00:00:00Z"}`, syntax, []string{"until invalid_time"}},
		{"POST", "/pause", `{"until":"2098-11-21T12:00:00Z","forMs":1000,"reason":"a\u0007"}`, meaning, []string{"forMs ambiguous", "reason invalid_characters"}},
		{"POST", "/pause", `{"forMs":0}`, meaning, []string{"forMs out_of_range"}},
		{"POST", "/pause", `{"reason":"a\u0007"}`, meaning, []string{"reason invalid_characters"}},
		{"PUT", "/hints/interval", `{"intervalMs":60000}`, meaning, []string{"ttlMs required"}},
		{"PUT", "/hints/interval", `{}`, meaning, []string{"intervalMs required", "ttlMs required"}},
		{"PUT", "/hints/interval", `{"intervalMs":null,"ttlMs":1}`, syntax, []string{"intervalMs invalid_type"}},
		{"PUT", "/hints/interval", `{"intervalMs":60000,"ttlMs":9223372036854775807}`, meaning, []string{"ttlMs out_of_range"}},
		{"PUT", "/hints/interval", `{"intervalMs":18446744133710,"ttlMs":18446744133710}`, meaning, []string{"ttlMs out_of_range", "intervalMs out_of_range"}},
		{"PUT", "/hints/interval", `{"intervalMs":60000,"expiresAt":"0001-01-01T00:00:00Z"}`, meaning, []string{"expiresAt out_of_range"}},
		{"PUT", "/hints/one-shot", `{"at":"2098-13-01T00:00:00Z","ttlMs":1}`, syntax, []string{"at invalid_time"}},
		{"PUT", "/hints/one-shot", `{"ttlMs":1000}`, meaning, []string{"at required"}},
		{"PUT", "/hints/one-shot", `{"nextRunAt":"2098-12-01T00:00:00Z","ttlMs":1000}`, syntax, []string{"nextRunAt unknown_field", "at required"}},
		{"PUT", "/hints/one-shot", `{"inMs":-9223372036854775808,"ttlMs":1000}`, meaning, []string{"inMs out_of_range"}},
		{"POST", "/resume", `{"x":1}`, syntax, []string{"x unknown_field"}},
		{"POST", "/run", `{"x":1}`, syntax, []string{"x unknown_field"}},
		{"POST", "/reset-failures", `{"x":1}`, syntax, []string{"x unknown_field"}},
	} {
		a := s.call(tc.method, path+tc.route, tc.body)
		require.Equal(t, tc.status, a.status, "%s %s: %s", tc.route, tc.body, a.body)
		require.ElementsMatch(t, tc.want, a.complaints(), "%s %s", tc.route, tc.body)
	}
	require.Equal(t, 1, s.store.writes)
}

// TestStoreErrorsAreListedWithValidationErrors sends a missing secret and a mask without a value
// beside another bad field.
func TestStoreErrorsAreListedWithValidationErrors(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(minimal)
	writes := s.store.writes
	const secret = `"name":"n","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"X":"{{secret \"none\"}}","Y":"{{secret \"some\"}}"}`
	for _, of := range []string{"POST /v1/endpoints", "POST /v1/test", "PUT /v1/endpoints/by-key/k", "PATCH /v1/endpoints/" + id} {
		method, path, _ := strings.Cut(of, " ")
		a := s.call(method, path, `{"timeoutMs":0,`+secret+`}`)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, of)
		require.ElementsMatch(t, []string{"timeoutMs out_of_range", "headers.X secret_unknown"}, a.complaints(), of)
		a = s.call(method, path, `{"zz":1,`+secret+`}`)
		require.Equal(t, []string{"zz unknown_field", "headers.X secret_unknown"}, a.complaints(), of)
	}
	masked := `{"timeoutMs":0,"name":"n","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"Authorization":"***"}}`
	require.Equal(t, []string{"headers.Authorization masked_value", "timeoutMs out_of_range"}, s.call("PUT", "/v1/endpoints/by-key/k", masked).complaints())
	require.Equal(t, writes, s.store.writes)

	s.store.err = errs.New(errs.Unavailable, "unavailable", "away")
	s.call("POST", "/v1/endpoints", `{"timeoutMs":0,`+secret+`}`).is(http.StatusServiceUnavailable)
}
