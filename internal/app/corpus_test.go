package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
)

// badInput is a request that must be refused, and how.
type badInput struct {
	name   string
	method string // POST unless given
	path   string // /v1/endpoints unless given
	header map[string]string
	body   string
	status int
	code   string // of the problem, or of one of its fields
}

// fieldOf returns a registration with a bad value of one field, given as JSON.
func fieldOf(field, value string, status int, code string) badInput {
	return fieldsOf(map[string]string{field: value}, status, code)
}

// fieldsOf returns a registration with other fields; an empty value leaves one out.
func fieldsOf(other map[string]string, status int, code string) badInput {
	fields := map[string]string{"name": `"p"`, "url": `"https://api.example.com/"`, "method": `"GET"`, "baselineIntervalMs": "60000"}
	maps.Copy(fields, other)
	if _, cron := other["baselineCron"]; cron && other["baselineIntervalMs"] == "" {
		delete(fields, "baselineIntervalMs")
	}
	var members []string
	for name, value := range fields {
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return badInput{name: fmt.Sprintf("%.60v", other), body: "{" + strings.Join(members, ",") + "}", status: status, code: code}
}

func text(n int) string { return `"` + strings.Repeat("x", n) + `"` }

// badBodies are bodies that are refused before any field is read.
func badBodies() []badInput {
	const rest = `"url":"https://api.example.com/","baselineIntervalMs":60000}`
	list := []badInput{
		{body: `{`, status: 400, code: "invalid_json"},
		{body: `nul`, status: 400, code: "invalid_json"},
		{body: `null`, status: 400, code: "invalid_json"},
		{body: `{}{}`, status: 400, code: "invalid_json"},
		{body: `{"name":"p",` + rest + `]`, status: 400, code: "invalid_json"},
		{body: `{"name":"p","Name":"q",` + rest, status: 400, code: "unknown_field"},
		{body: `{"name":"p","name":"q",` + rest, status: 400, code: "duplicate_field"},
		{body: `{"extra":true,"name":"p",` + rest, status: 400, code: "unknown_field"},
		{body: "{\"name\":\"\xc3\x28\"," + rest, status: 400, code: "invalid_json"},
		{body: strings.Repeat(`{"a":`, 11_000) + "1" + strings.Repeat("}", 11_000), status: 400, code: "invalid_json"},
		{body: `{"name":` + text(600<<10) + "," + rest, status: 413, code: "body_too_large"},
		{body: `{"name":` + text(20<<20) + "," + rest, status: 413, code: "body_too_large"},
		{body: `{"name":"\ud83d",` + rest, status: 400, code: "invalid_json"},
		{body: "\xef\xbb\xbf" + `{"name":"p",` + rest, status: 400, code: "invalid_json"},
		{header: map[string]string{"Content-Type": "application/yaml"}, body: "{}", status: 415, code: "unsupported_media_type"},
		{header: map[string]string{"Content-Type": "multipart/form-data"}, body: "{}", status: 415, code: "unsupported_media_type"},
		{header: map[string]string{"Content-Encoding": "br"}, body: "{}", status: 415, code: "unsupported_media_type"},
		fieldOf("status", `"paused"`, 400, "unknown_field"),
		fieldOf("lockUntil", `"2031-01-01T00:00:00Z"`, 400, "unknown_field"),
		fieldOf("tenant_id", `"x"`, 400, "unknown_field"),
	}
	for i := range list {
		list[i].name = fmt.Sprintf("%.40q %v", list[i].body, list[i].header)
	}
	return list
}

// badTargets are URLs that must not be registered: those that are none, and those that lead inside.
func badTargets() []badInput {
	list := []badInput{fieldOf("url", text(3000), 422, "too_long")}
	for url, code := range map[string]string{
		"api.example.com": "url_invalid", "https://": "url_invalid", "https:/api.example.com": "url_invalid", "ssh://api.example.com": "url_scheme",
		"HTTPS+unix://x": "url_scheme", "https://u:p@api.example.com": "url_userinfo", "https://api.example.com:99999": "url_port",
		"https://api.example.com:23": "url_port", `http://api.example.com/\u0001`: "url_invalid",
	} {
		list = append(list, fieldOf("url", `"`+url+`"`, 422, code))
	}
	for _, host := range []string{
		"127.0.0.2", "10.1.2.3", "172.16.0.1", "192.168.0.10:8080", "169.254.1.1", "100.127.255.254", "198.19.255.1", "250.0.0.1",
		"[::ffff:10.0.0.5]", "[64:ff9b::10.0.0.1]", "[2002:a00:1::1]", "[fd12::1]", "localhost:9000", "a.b.localhost", "3232235777",
		"0xa9fea9fe", "metadata.google.internal.",
	} {
		list = append(list, fieldOf("url", `"http://`+host+`"`, 422, "url_forbidden"))
	}
	return list
}

// badFields are values that a field must not have.
func badFields() []badInput {
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf(`"A%d":"x"`, i)
	}
	list := []badInput{
		fieldOf("name", `""`, 422, "required"), fieldOf("name", `"\t"`, 422, "required"), fieldOf("name", `"a\u0007"`, 422, "invalid_characters"),
		fieldOf("name", `"a\r\nb"`, 422, "invalid_characters"), fieldOf("name", text(500), 422, "too_long"), fieldOf("name", `[]`, 400, "invalid_type"),
		fieldOf("method", `"OPTIONS*"`, 422, "method_invalid"), fieldOf("method", `"post"`, 422, "method_invalid"),
		fieldOf("method", `"PO ST"`, 422, "method_invalid"),
		fieldOf("headers", `{"A":"x\r\ny"}`, 422, "header_invalid"), fieldOf("headers", `{"A B":"x"}`, 422, "header_invalid"),
		fieldOf("headers", `{"host":"x"}`, 422, "header_forbidden"), fieldOf("headers", `{"content-length":"5"}`, 422, "header_forbidden"),
		fieldOf("headers", `{"TRANSFER-ENCODING":"chunked"}`, 422, "header_forbidden"), fieldOf("headers", `{"Connection":"close"}`, 422, "header_forbidden"),
		fieldOf("headers", `{"Rubato-Fence":"9"}`, 422, "header_forbidden"), fieldOf("headers", `{"A":"1","a":"1"}`, 422, "header_duplicate"),
		fieldOf("headers", `{"A":{}}`, 400, "invalid_type"), fieldOf("headers", "{"+strings.Join(many, ",")+"}", 422, "too_many"),
		fieldsOf(map[string]string{"method": `"HEAD"`, "body": `"x"`}, 422, "body_not_allowed"), fieldOf("body", text(300<<10), 422, "too_long"),
		fieldsOf(map[string]string{"baselineCron": `"@daily"`, "baselineIntervalMs": "60000"}, 422, "schedule_ambiguous"),
		fieldsOf(map[string]string{"baselineIntervalMs": ""}, 422, "schedule_required"),
		fieldOf("timezone", `"Europe/Nowhere"`, 422, "timezone_invalid"), fieldOf("timezone", `"Local"`, 422, "timezone_invalid"),
		fieldOf("timezone", `"UTC+2"`, 422, "timezone_invalid"),
		fieldOf("baselineIntervalMs", "0", 422, "out_of_range"), fieldOf("baselineIntervalMs", "500", 422, "out_of_range"),
		fieldOf("baselineIntervalMs", "-60000", 422, "out_of_range"), fieldOf("baselineIntervalMs", "1000000000000000", 422, "out_of_range"),
		fieldOf("baselineIntervalMs", "99999999999999999999", 400, "invalid_type"), fieldOf("baselineIntervalMs", `"1m"`, 400, "invalid_type"),
		fieldOf("baselineIntervalMs", "1000.25", 400, "invalid_type"), fieldOf("minIntervalMs", "1", 422, "out_of_range"),
		fieldsOf(map[string]string{"minIntervalMs": "60000", "maxIntervalMs": "59999"}, 422, "clamp_order"),
		fieldsOf(map[string]string{"overlap": `"allow"`, "budget": `"60/h"`}, 422, "overlap_allowed"),
		fieldOf("maxIntervalMs", "31536000001000", 422, "out_of_range"), fieldOf("timeoutMs", "0", 422, "out_of_range"),
		fieldsOf(map[string]string{"timeoutMs": "60001", "maxExecutionTimeMs": "60000"}, 422, "timeout_order"),
		fieldOf("maxExecutionTimeMs", "3600000", 422, "out_of_range"),
	}
	for cron, code := range map[string]string{
		"TZ=Europe/Rome": "cron_invalid", "CRON_TZ=": "cron_invalid", "* * * *": "cron_invalid", "61 * * * *": "cron_invalid",
		"0 0 31 4 *": "cron_never_fires", "@every 500ms": "cron_invalid", "@annually x": "cron_invalid",
		"* , * * *": "cron_never_fires",
	} {
		list = append(list, fieldOf("baselineCron", `"`+cron+`"`, 422, code))
	}
	return list
}

// badRequests are requests about an existing endpoint under path.
func badRequests(path string) []badInput {
	return []badInput{
		{name: "an id that is none", method: "GET", path: "/v1/endpoints/123", status: 404, code: "not_found"},
		{name: "an id that is no text", method: "GET", path: "/v1/endpoints/%ff", status: 400, code: "invalid_id"},
		{name: "a slash too many", method: "GET", path: "//v1/endpoints", status: 404, code: "route_not_found"},
		{name: "a slash in the middle", path: "/v1//endpoints", body: "{}", status: 404, code: "route_not_found"},
		{name: "a way up", method: "GET", path: "/v1/endpoints/../keys", status: 404, code: "route_not_found"},
		{name: "a key that is a way up", method: "PUT", path: "/v1/endpoints/by-key/..", body: `{"name":"p"}`, status: 422, code: "invalid_characters"},
		{name: "a key that is no text", method: "PUT", path: "/v1/endpoints/by-key/%ff", body: `{"name":"p"}`, status: 422, code: "invalid_characters"},
		{name: "limit", method: "GET", path: "/v1/endpoints?limit=501", status: 400, code: "out_of_range"},
		{name: "cursor", method: "GET", path: "/v1/endpoints?cursor=%25%25%25", status: 400, code: "invalid_cursor"},
		{name: "version", method: "PATCH", path: path, header: map[string]string{"If-Match": `"99"`}, body: `{"name":"q"}`, status: 412, code: "version_mismatch"},
		{name: "no ttl", method: "PUT", path: path + "/hints/interval", body: `{"intervalMs":60000}`, status: 422, code: "required"},
		{name: "month 13", method: "PUT", path: path + "/hints/one-shot", body: `{"at":"2030-13-01T00:00:00Z","ttlMs":1000}`, status: 400, code: "invalid_time"},
		{name: "too short a hint", method: "PUT", path: path + "/hints/interval", body: `{"intervalMs":1,"ttlMs":1000}`, status: 422, code: "out_of_range"},
		{name: "another endpoint's id", method: "PUT", path: path + "/hints/interval", body: `{"intervalMs":60000,"ttlMs":1000,"endpointId":"ep_1"}`, status: 400, code: "unknown_field"},
		{name: "the past", path: path + "/pause", body: `{"until":"1999-01-01T00:00:00Z"}`, status: 422, code: "out_of_range"},
		{name: "year 12345", path: path + "/pause", body: `{"until":"+12345-01-01T00:00:00Z"}`, status: 400, code: "invalid_time"},
	}
}

// refused sends a bad input and requires its refusal.
func (in badInput) refused(t *testing.T, base string) {
	t.Helper()
	method, path := "POST", "/v1/endpoints"
	if in.method != "" {
		method = in.method
	}
	if in.path != "" {
		path = in.path
	}
	header := map[string]string{"Content-Type": "application/json"}
	maps.Copy(header, in.header)
	status, answer := send(t, method, base+path, header, in.body)
	var problem struct {
		Code   string
		Errors []struct{ Code, Message string }
	}
	require.NoError(t, json.Unmarshal(answer, &problem), "%s", answer)
	codes := []string{problem.Code}
	for _, e := range problem.Errors {
		require.NotEmpty(t, e.Message)
		codes = append(codes, e.Code)
	}
	require.Equal(t, in.status, status, "%s: %.300s", in.name, answer)
	require.Contains(t, codes, in.code, "%s: %.300s", in.name, answer)
}

func send(t *testing.T, method, url string, header map[string]string, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer key-of-the-test")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, answer
}

// Bad inputs that others have met, against a real server with its real judgement of targets. Each
// has its own answer, and none leaves anything behind.
func TestBadInputsAreRefusedWithoutSideEffects(t *testing.T) {
	t.Parallel()
	cfg := settings(t, migrated(t), "RUBATO_BOOTSTRAP_API_KEY=key-of-the-test", "RUBATO_API_RATE=0")
	api := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return apiserver.API{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: started}.Run(ctx)
	})
	const good = `{"name":"p","url":"https://api.example.com/","baselineIntervalMs":60000,"minIntervalMs":30000,"startAt":"2099-01-01T00:00:00Z"}`
	once := map[string]string{"Content-Type": "application/json", "Idempotency-Key": "one"}
	status, answer := send(t, "POST", api.API+"/v1/endpoints", once, good)
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	var endpoint struct{ ID string }
	require.NoError(t, json.Unmarshal(answer, &endpoint))
	_, before := send(t, "GET", api.API+"/v1/audit", nil, "")

	list := append(badBodies(), badTargets()...)
	list = append(list, badFields()...)
	list = append(list, badRequests("/v1/endpoints/"+endpoint.ID)...)
	list = append(list, badInput{name: "an Idempotency-Key again", header: once, body: strings.Replace(good, `"p"`, `"q"`, 1), status: 422, code: "idempotency_conflict"}) // 422 by the conventions.
	for _, in := range list {
		t.Run(in.name, func(t *testing.T) { in.refused(t, api.API) })
	}
	_, after := send(t, "GET", api.API+"/v1/audit", nil, "")
	require.Equal(t, string(before), string(after), "nothing was changed")
}
