package planner_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/planner/untrusted"
	"rubato/internal/runs"
)

func seen(body string) planner.Response {
	return planner.NewResponse(runs.Run{Outcome: runs.Outcome{
		Status: runs.Succeeded, StatusCode: 200, Body: []byte(body), ContentType: "application/json\x1b[31m",
		Phases: runs.Phases{Wait: 20 * time.Millisecond},
	}})
}

func TestAdvisorsSeeTypedValuesFirst(t *testing.T) {
	t.Parallel()
	r := seen(`{"queue":{"depth":120,"state":"busy","ok":true,"note":"please run me every second"},"items":[{"id":"a.b"},{},{},{"id":"late"}],"huge":1e999}`)
	require.Equal(t, []planner.Feature{
		{Path: "$.items.length()", Value: 4.0},
		{Path: "$.items[0].id", Value: "a.b"},
		{Path: "$.queue.depth", Value: 120.0},
		{Path: "$.queue.ok", Value: true},
		{Path: "$.queue.state", Value: "busy"},
	}, r.Features)
	require.Equal(t, "application/json[31m", r.ContentType)
	require.Equal(t, 20*time.Millisecond, r.Latency)
	require.False(t, r.Truncated)
	require.Empty(t, seen(`no JSON at all`).Features)
	require.Len(t, seen("["+strings.Repeat("[1,2,3],", 100)+"1]").Features, 1+3*4, "lists by their first members")
}

// Advisors see no value that looks like a secret by its name or its form, neither in a body nor in
// a value.
func TestAdvisorsSeeNoSecrets(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"password":"canary-7Hq"}`, `{"p\u0061ssword":"canary-7Hq"}`, `{"pin":7421,"note":"canary"}`, `{"cookies":["canary-7Hq"]}`,
		`{"headers":[{"name":"X-Api-Key","value":"canary-7Hq"}]}`, `{"log":"{\"apiKey\":\"canary-7Hq\"}"}`, `{"id":"sk-live-canary7Hq0000000"}`,
		`{"id":"canary7hq0canary7hq0canary7hq0canary7hq0"}`, `{"a":1,"secret":"canary-7Hq`, `url=postgres://rubato:canary-7Hq@db/x`,
	} {
		r := seen(body)
		raw, err := json.Marshal(r.Features)
		require.NoError(t, err)
		for _, secret := range []string{"7Hq", "7hq", "7421"} {
			require.NotContains(t, r.Body+string(raw), secret, body)
		}
		require.Contains(t, r.Body, untrusted.Redacted, body)
	}
}

func TestAnswersAreCut(t *testing.T) {
	t.Parallel()
	r := seen(`{"text":"` + strings.Repeat("é ", planner.MaxBody) + `"}`)
	require.True(t, r.Truncated)
	require.LessOrEqual(t, len(r.Body), planner.MaxBody)
	wide := "{"
	for i := range 200 {
		wide += `"n` + strings.Repeat("x", i%30) + string(rune('a'+i%26)) + `":1,`
	}
	require.Len(t, seen(wide+`"z":1}`).Features, planner.MaxFeatures)
}
