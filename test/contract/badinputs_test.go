package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	syntax  = http.StatusBadRequest
	meaning = http.StatusUnprocessableEntity
)

// badBody is a body for POST /v1/endpoints that is refused as a whole.
type badBody struct {
	body, media, encoding string
	status                int
	code                  string
}

// fields returns the members of a body that would be accepted, with some in place of theirs.
func fields(more ...string) string {
	members := map[string]string{"name": `"p"`, "url": `"https://api.example.com/"`, "method": `"GET"`, "baselineIntervalMs": "60000"}
	order := []string{"name", "url", "method", "baselineIntervalMs"}
	for _, pair := range more {
		name, value, _ := strings.Cut(pair, "=")
		if _, known := members[name]; !known {
			order = append(order, name)
		}
		members[name] = value
	}
	var list []string
	for _, name := range order {
		if members[name] != "" {
			list = append(list, fmt.Sprintf("%q:%s", name, members[name]))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func badBodies() []badBody {
	const json = "application/json"
	deep := fields("labels=" + strings.Repeat(`{"a":`, 11_000) + "1" + strings.Repeat("}", 11_000))
	return []badBody{
		{`{`, json, "", syntax, "invalid_json"},
		{`nul`, json, "", syntax, "invalid_json"},
		{`null`, json, "", syntax, "invalid_json"},
		{`{}{}`, json, "", syntax, "invalid_json"},
		{fields() + "]", json, "", syntax, "invalid_json"},
		{"", json, "", syntax, "invalid_json"},
		{"\xef\xbb\xbf" + fields(), json, "", syntax, "invalid_json"},
		{fields("name=\"\xc3\x28\""), json, "", syntax, "invalid_json"},
		{fields(`name="\ud800"`), json, "", syntax, "invalid_json"},
		{fields(`name="\udc00\ud800"`), json, "", syntax, "invalid_json"},
		{deep, json, "", syntax, "invalid_json"},
		{fields("body=\"" + strings.Repeat("x", 600<<10) + `"`), json, "", http.StatusRequestEntityTooLarge, "body_too_large"},
		{fields(), "application/yaml", "", http.StatusUnsupportedMediaType, "unsupported_media_type"},
		{fields(), "multipart/form-data", "", http.StatusUnsupportedMediaType, "unsupported_media_type"},
		{fields(), "", "", http.StatusUnsupportedMediaType, "unsupported_media_type"},
		{fields(), json, "br", http.StatusUnsupportedMediaType, "unsupported_media_type"},
	}
}

// badField is a member that no endpoint may have, and the complaint, "field code".
type badField struct {
	members []string
	status  int
	want    string
}

func bad(status int, want string, members ...string) badField { return badField{members, status, want} }

func badMembers() []badField {
	list := []badField{
		bad(syntax, "Name unknown_field", `Name="q"`),
		bad(syntax, "extra unknown_field", `extra=true`),
		bad(syntax, "status unknown_field", `status="paused"`),
		bad(syntax, "lockUntil unknown_field", `lockUntil="2031-01-01T00:00:00Z"`),
		bad(syntax, "tenant_id unknown_field", `tenant_id="x"`),
		bad(syntax, "id unknown_field", `id="ep_1"`),
		bad(syntax, "version unknown_field", `version=7`),
		bad(syntax, "name duplicate_field", `name="p","name":"q"`),
		bad(meaning, "name required", `name=""`),
		bad(meaning, "name required", `name="\t"`),
		bad(meaning, "name invalid_characters", `name="a\u0007"`),
		bad(meaning, "name invalid_characters", `name="a\r\nb"`),
		bad(meaning, "name too_long", `name="`+strings.Repeat("x", 500)+`"`),
		bad(syntax, "name invalid_type", `name=[]`),
		bad(meaning, "url too_long", `url="https://api.example.com/`+strings.Repeat("x", 3000)+`"`),
		bad(meaning, "runbookUrl url_invalid", `runbookUrl="ftp://wiki.example.com/"`),
		bad(meaning, "runbookUrl url_invalid", `runbookUrl="javascript:alert(1)"`),
		bad(meaning, "runbookUrl url_invalid", `runbookUrl="wiki"`),
		bad(meaning, "overlap invalid_value", `overlap="parallel"`),
		bad(syntax, "overlap invalid_type", `overlap=true`),
		bad(meaning, "runbookUrl required", `runbookUrl=""`),
		bad(meaning, "runbookUrl invalid_characters", `runbookUrl="https://wiki.example.com/\u0007"`),
		bad(meaning, "runbookUrl too_long", `runbookUrl="https://wiki.example.com/`+strings.Repeat("x", 2048)+`"`),
		bad(syntax, "runbookUrl invalid_type", `runbookUrl=7`),
		bad(meaning, "changeKey[0] jsonpath_invalid", `changeKey=["id"]`),
		bad(meaning, "ignore[1] jsonpath_invalid", `ignore=["$.a","$["]`),
		bad(syntax, "ignore invalid_type", `ignore="$.a"`),
		bad(syntax, "changeKey[0] invalid_type", `changeKey=[1]`),
		bad(meaning, "requiredTags[1] invalid_value", `requiredTags=["region=eu","region"]`),
		bad(meaning, "startChains[1] invalid_value", `startChains=["failed=cleanup","lost=cleanup"]`),
		bad(meaning, "startChains[1] duplicate", `startChains=["failed=cleanup","failed=cleanup"]`),
		bad(syntax, "startChains invalid_type", `startChains="failed=cleanup"`),
		bad(meaning, "preferredTags[0] invalid_value", `preferredTags=["Region=eu"]`),
		bad(meaning, "preferredTags[1] duplicate", `preferredTags=["region=eu","region=eu"]`),
		bad(meaning, "requiredTags too_many", `requiredTags=["a=1","a=2","a=3","a=4","a=5","a=6","a=7","a=8","a=9"]`),
		bad(meaning, "priority invalid_value", `priority="urgent"`),
		bad(syntax, "priority invalid_type", `priority=1`),
		bad(syntax, "requiredTags invalid_type", `requiredTags="region=eu"`),
		bad(syntax, "followNext invalid_type", `followNext="yes"`),
		bad(syntax, "followMaxAge invalid_type", `followMaxAge=60`),
		bad(meaning, "method method_invalid", `method="OPTIONS*"`),
		bad(meaning, "method method_invalid", `method="post"`),
		bad(meaning, "method method_invalid", `method="PO ST"`),
		bad(meaning, "method method_invalid", `method="TRACE"`),
		bad(meaning, "headers.A header_invalid", `headers={"A":"x\r\ny"}`),
		bad(meaning, "headers.A B header_invalid", `headers={"A B":"x"}`),
		bad(meaning, "headers.host header_forbidden", `headers={"host":"x"}`),
		bad(meaning, "headers.content-length header_forbidden", `headers={"content-length":"5"}`),
		bad(meaning, "headers.TRANSFER-ENCODING header_forbidden", `headers={"TRANSFER-ENCODING":"chunked"}`),
		bad(meaning, "headers.Connection header_forbidden", `headers={"Connection":"close"}`),
		bad(meaning, "headers.Rubato-Fence header_forbidden", `headers={"Rubato-Fence":"9"}`),
		bad(meaning, "headers.a header_duplicate", `headers={"A":"1","a":"1"}`),
		bad(syntax, "headers.A invalid_type", `headers={"A":{}}`),
		bad(meaning, "headers too_many", `headers=`+manyHeaders(200)),
		bad(meaning, "body body_not_allowed", `body="x"`, `method="HEAD"`),
		bad(meaning, "body too_long", `body="`+strings.Repeat("x", 300<<10)+`"`),
		bad(meaning, "baselineCron schedule_ambiguous", `baselineCron="* * * * *"`),
		bad(meaning, "baselineIntervalMs schedule_required", `baselineIntervalMs=`),
		bad(meaning, "baselineIntervalMs out_of_range", `baselineIntervalMs=0`),
		bad(meaning, "baselineIntervalMs out_of_range", `baselineIntervalMs=500`),
		bad(meaning, "baselineIntervalMs out_of_range", `baselineIntervalMs=-60000`),
		bad(meaning, "baselineIntervalMs out_of_range", `baselineIntervalMs=1000000000000000`),
		bad(syntax, "baselineIntervalMs invalid_type", `baselineIntervalMs=99999999999999999999`),
		bad(syntax, "baselineIntervalMs invalid_type", `baselineIntervalMs="1m"`),
		bad(syntax, "baselineIntervalMs invalid_type", `baselineIntervalMs=1000.25`),
		bad(syntax, "baselineIntervalMs invalid_type", `baselineIntervalMs=1e15`),
		bad(meaning, "minIntervalMs out_of_range", `minIntervalMs=1`),
		bad(meaning, "minIntervalMs clamp_order", `minIntervalMs=60000`, `maxIntervalMs=59999`),
		bad(meaning, "maxIntervalMs out_of_range", `maxIntervalMs=31536000001000`),
		bad(meaning, "timeoutMs out_of_range", `timeoutMs=0`),
		bad(meaning, "timeoutMs timeout_order", `timeoutMs=60001`, `maxExecutionTimeMs=60000`),
		bad(meaning, "endAt end_order", `startAt="2030-01-02T00:00:00Z"`, `endAt="2030-01-02T00:00:00Z"`),
		bad(meaning, "endAt out_of_range", `endAt="2250-01-01T00:00:00Z"`),
		bad(meaning, "maxRuns out_of_range", `maxRuns=0`),
		bad(syntax, "maxRuns invalid_type", `maxRuns=1.5`),
		bad(meaning, "maxExecutionTimeMs out_of_range", `maxExecutionTimeMs=3600000`),
		bad(meaning, "timezone timezone_invalid", `timezone="Europe/Nowhere"`),
		bad(meaning, "timezone timezone_invalid", `timezone="Local"`),
		bad(meaning, "timezone timezone_invalid", `timezone="UTC+2"`),
	}
	for url, code := range badURLs() {
		list = append(list, bad(meaning, "url "+code, `url="`+url+`"`))
	}
	for cron, code := range badCrons() {
		list = append(list, bad(meaning, "baselineCron "+code, `baselineIntervalMs=`, `baselineCron="`+cron+`"`))
	}
	return list
}

func manyHeaders(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"A%d":"x"`, i))
	}
	return "{" + strings.Join(list, ",") + "}"
}

func badURLs() map[string]string {
	urls := map[string]string{
		"api.example.com": "url_invalid", "https://": "url_invalid", "https:/api.example.com": "url_invalid",
		"ssh://api.example.com": "url_scheme", "HTTPS+unix://x": "url_scheme", "https://u:p@api.example.com": "url_userinfo",
		"https://api.example.com:99999": "url_port", "https://api.example.com:23": "url_port", `http://api.example.com/\u0001`: "url_invalid",
	}
	for _, host := range []string{
		"127.0.0.2", "10.1.2.3", "172.16.0.1", "192.168.0.10:8080", "169.254.1.1", "100.127.255.254", "198.19.255.1", "250.0.0.1",
		"[::ffff:10.0.0.5]", "[64:ff9b::10.0.0.1]", "[2002:a00:1::1]", "[fd12::1]", "localhost:9000", "a.b.localhost", "3232235777",
		"0xa9fea9fe", "metadata.google.internal.",
	} {
		urls["http://"+host] = "url_forbidden"
	}
	return urls
}

func badCrons() map[string]string {
	return map[string]string{
		"TZ=Europe/Rome": "cron_invalid", "CRON_TZ=": "cron_invalid", "* * * *": "cron_invalid",
		"61 * * * *": "cron_invalid", "0 0 31 4 *": "cron_never_fires", "* , * * *": "cron_never_fires", "@every 500ms": "cron_invalid",
		"@annually text": "cron_invalid",
	}
}

// answerTime is how long a refusal may take, with much room for a loaded machine: 250 ms are
// promised.
const answerTime = 5 * time.Second

// requireRefused requires a status and a code, that of the whole or of a field, and that nothing
// was written.
func (w *world) requireRefused(t *testing.T, a *answer, status int, code string) {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	p := a.problem(t)
	codes := []string{p.Code}
	for _, e := range p.Errors {
		codes = append(codes, e.Code, e.Field+" "+e.Code)
		require.NotEmpty(t, e.Message)
	}
	require.Contains(t, codes, code, "%s", a.body)
}

// TestBadInputsAreRefusedByName sends invalid values. Each gets its status and its code, and writes
// nothing.
func TestBadInputsAreRefusedByName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	endpoint := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	before := w.state(t)
	for _, b := range badBodies() {
		changes := []change{header("Content-Type", b.media)}
		if b.encoding != "" {
			changes = append(changes, header("Content-Encoding", b.encoding))
		}
		w.requireRefused(t, w.call(t, "POST", "/v1/endpoints", b.body, changes...), b.status, b.code)
	}
	for _, b := range badMembers() {
		t.Run(b.want, func(t *testing.T) {
			began := time.Now()
			a := w.call(t, "POST", "/v1/endpoints", fields(b.members...))
			require.Less(t, time.Since(began), answerTime)
			w.requireRefused(t, a, b.status, b.want)
		})
	}
	// The same on an edit, except for fields that an existing endpoint always has.
	for _, b := range badMembers() {
		if slices.Contains(b.members, `baselineIntervalMs=`) {
			continue
		}
		members := append([]string{"name=", "url=", "method=", "baselineIntervalMs="}, b.members...)
		t.Run("Patch "+b.want, func(t *testing.T) {
			w.requireRefused(t, w.call(t, "PATCH", "/v1/endpoints/"+endpoint, fields(members...)), b.status, b.want)
		})
	}
	require.Equal(t, before, w.state(t))
}

// TestBadRequestsAreRefusedByName is the same for paths, parameters and headers, and for other
// bodies than an endpoint's.
func TestBadRequestsAreRefusedByName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := "/v1/endpoints/" + w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	w.call(t, "POST", path+"/resume", "", header("Idempotency-Key", "used")).is(t, http.StatusOK)
	before := w.state(t)
	for _, b := range []struct {
		method, path, body string
		status             int
		code               string
		changes            []change
	}{
		{"GET", "/v1/endpoints/123", "", http.StatusNotFound, "not_found", nil},
		{"GET", "/v1/endpoints/%ff", "", syntax, "invalid_id", nil},
		{"GET", "/v1/keys/123", "", http.StatusNotFound, "not_found", nil},
		{"GET", "/v1/keys/%00", "", syntax, "invalid_id", nil},
		{"GET", "/v1/endpoints?limit=501", "", syntax, "limit out_of_range", nil},
		{"GET", "/v1/endpoints?cursor=%25%25%25", "", syntax, "invalid_cursor", nil},
		{"GET", "/v1/audit?cursor=x", "", syntax, "invalid_cursor", nil},
		{"GET", "/v1/audit?tenant=x", "", syntax, "tenant unknown_parameter", nil},
		{"GET", "/v1/audit?kind=endpoints", "", syntax, "kind invalid_value", nil},
		{"GET", "/v1/audit?action=registered", "", syntax, "action invalid_value", nil},
		{"PATCH", path, `{"name":"q"}`, http.StatusPreconditionFailed, "version_mismatch", []change{header("If-Match", `"99"`)}},
		{"DELETE", path, "", http.StatusPreconditionFailed, "version_mismatch", []change{header("If-Match", `"99"`)}},
		{"PATCH", path, `{"name":"q"}`, syntax, "If-Match duplicate_parameter", []change{func(r *http.Request) { r.Header["If-Match"] = []string{"*", "*"} }}},
		{"PUT", "/v1/endpoints/by-key/%00", fields(), meaning, "key invalid_characters", nil},
		{"PUT", path + "/noise", `{"path":"$.a"}`, meaning, "state required", nil},
		{"PUT", path + "/noise", `{"path":"$.a","state":"wrong"}`, meaning, "state invalid_value", nil},
		{"PUT", path + "/noise", `{"path":"$.a","state":"rejected","by":"me"}`, syntax, "by unknown_field", nil},
		{"PUT", path + "/hints/interval", `{"intervalMs":60000}`, meaning, "ttlMs required", nil},
		{"PUT", path + "/hints/one-shot", `{"at":"2030-13-01T00:00:00Z","ttlMs":1000}`, syntax, "at invalid_time", nil},
		{"PUT", path + "/hints/interval", `{"intervalMs":60000,"ttlMs":1000,"endpointId":"ep_1"}`, syntax, "endpointId unknown_field", nil},
		{"POST", path + "/pause", `{"until":"1999-01-01T00:00:00Z"}`, meaning, "until out_of_range", nil},
		{"POST", path + "/pause", `{"until":"+12345-01-01T00:00:00Z"}`, syntax, "until invalid_time", nil},
		{"POST", path + "/resume", `{}`, meaning, "idempotency_conflict", []change{header("Idempotency-Key", "used")}},
		{"POST", path + "/resume", "", syntax, "Idempotency-Key invalid_value", []change{header("Idempotency-Key", "")}},
		{"GET", "/v1/endpoints", "", http.StatusUnauthorized, "unauthorized", []change{key(strings.Repeat("x", 10_000))}},
		{"GET", "/v1/endpoints?access_token=" + adminKey, "", http.StatusUnauthorized, "unauthorized", []change{key("")}},
	} {
		t.Run(b.code, func(t *testing.T) {
			w.requireRefused(t, w.call(t, b.method, b.path, b.body, b.changes...), b.status, b.code)
		})
	}
	require.Equal(t, before, w.state(t))
}

// TestAHintBeyondTheClampIsTakenAndClamped: it is no error, because the clamp may change later; the
// answer warns.
func TestAHintBeyondTheClampIsTakenAndClamped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := "/v1/endpoints/" + w.call(t, "POST", "/v1/endpoints", fields("minIntervalMs=30000")).is(t, http.StatusCreated)["id"].(string)
	hinted := w.call(t, "PUT", path+"/hints/interval", `{"intervalMs":1000,"ttlMs":60000}`).is(t, http.StatusOK)
	require.Equal(t, "hint_clamped", hinted["warnings"].([]any)[0].(map[string]any)["code"])
}
