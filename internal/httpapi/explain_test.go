package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/httpapi"
)

// TestWorkedCases are the worked cases of the governor. T is 2026-11-21T10:00:00Z, a Saturday.
func TestWorkedCases(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const anchored = `"anchor":"2026-11-21T10:00:00Z","now":"2026-11-21T10:00:00.2Z"`
	const fresh = `"expiresAt":"2026-11-22T00:00:00Z"`
	for name, tc := range map[string]struct{ facts, next, source string }{
		"Interval":           {`"baselineIntervalMs":60000,` + anchored, "10:01:00", "baseline-interval"},
		"Backoff":            {`"baselineIntervalMs":60000,"failureCount":3,` + anchored, "10:08:00", "baseline-interval"},
		"BackoffCap":         {`"baselineIntervalMs":60000,"failureCount":10,` + anchored, "10:32:00", "baseline-interval"},
		"Overrun":            {`"baselineIntervalMs":60000,"anchor":"2026-11-21T10:00:00Z","now":"2026-11-21T10:01:30Z"`, "10:02:30", "baseline-interval"},
		"CronOverrun":        {`"baselineCron":"*/5 * * * *","anchor":"2026-11-21T10:00:00Z","now":"2026-11-21T10:10:00Z"`, "10:10:00", "baseline-cron"},
		"IntervalHint":       {`"baselineIntervalMs":300000,"failureCount":5,"hints":{"interval":{"intervalMs":60000,` + fresh + `}},` + anchored, "10:01:00", "ai-interval"},
		"BothHints":          {`"baselineIntervalMs":300000,"hints":{"interval":{"intervalMs":120000,` + fresh + `},"oneShot":{"at":"2026-11-21T10:01:30Z",` + fresh + `}},` + anchored, "10:01:30", "ai-oneshot"},
		"OneShotServed":      {`"baselineIntervalMs":300000,"hints":{"oneShot":{"at":"2026-11-21T09:55:00Z",` + fresh + `}},` + anchored, "10:05:00", "baseline-interval"},
		"ClampedMin":         {`"baselineIntervalMs":45000,"minIntervalMs":60000,"maxIntervalMs":120000,` + anchored, "10:01:00", "clamped-min"},
		"ClampedMax":         {`"baselineIntervalMs":600000,"maxIntervalMs":180000,` + anchored, "10:03:00", "clamped-max"},
		"Paused":             {`"baselineIntervalMs":600000,"pausedUntil":"2026-11-21T11:00:00Z",` + anchored, "11:00:00", "paused"},
		"TighteningHint":     {`"baselineIntervalMs":3600000,"cause":"replan","anchor":"2026-11-21T09:30:00Z","now":"2026-11-21T10:00:00Z","hints":{"interval":{"intervalMs":300000,` + fresh + `}}`, "10:00:00", "ai-interval"},
		"ResumedAfterAnHour": {`"baselineIntervalMs":60000,"cause":"replan","anchor":"2026-11-21T10:00:00Z","now":"2026-11-21T11:00:00Z"`, "11:00:00", "baseline-interval"},
		"NeverRun":           {`"baselineIntervalMs":60000,"now":"2026-11-21T10:00:00Z"`, "10:00:00", "baseline-interval"},
		"CronPaused":         {`"baselineCron":"0 2 * * *","cause":"replan","anchor":"2026-11-21T02:00:00Z","now":"2026-11-21T12:00:00Z","pausedUntil":"2026-11-21T17:00:00Z"`, "22T02:00:00", "paused"},
		"RetryAfter":         {`"baselineIntervalMs":60000,"retryAfter":"2026-11-21T10:30:00Z",` + anchored, "10:30:00", "retry-after"},
		"Target":             {`"baselineIntervalMs":60000,"targetNext":"2026-11-21T10:00:45Z",` + anchored, "10:00:45", "target"},
		"Fresh":              {`"baselineIntervalMs":60000,"freshUntil":"2026-11-21T10:30:00Z",` + anchored, "10:30:00", "target"},
		"ExpiredHint":        {`"baselineIntervalMs":60000,"hints":{"interval":{"intervalMs":5000,"expiresAt":"2026-11-21T10:00:00.2Z"}},` + anchored, "10:01:00", "baseline-interval"},
	} {
		t.Run(name, func(t *testing.T) {
			next := "2026-11-21T" + tc.next + "Z"
			if len(tc.next) > 8 {
				next = "2026-11-" + tc.next + "Z"
			}
			d := s.call("POST", "/v1/explain", "{"+tc.facts+"}", withKey(readKey)).is(http.StatusOK)
			require.Equal(t, next, d["nextRunAt"])
			require.Equal(t, tc.source, d["source"])
			steps := d["steps"].([]any)
			require.NotEmpty(t, steps)
			require.Equal(t, next, steps[len(steps)-1].(map[string]any)["at"])

			offline, err := httpapi.Explain([]byte("{"+tc.facts+"}"), now)
			require.NoError(t, err)
			var same map[string]any
			require.NoError(t, json.Unmarshal(offline, &same))
			require.Equal(t, d, same, "the route and the command line give one answer")
		})
	}
}

func TestExplainDefaults(t *testing.T) {
	t.Parallel()
	got, err := httpapi.Explain([]byte(`{"baselineIntervalMs":60000}`), now)
	require.NoError(t, err)
	require.Contains(t, string(got), `"nextRunAt":"2098-11-21T10:00:00Z"`)

	got, err = httpapi.Explain([]byte(`{"baselineIntervalMs":60000,"pausedUntil":"9999-01-01T00:00:00Z"}`), now)
	require.NoError(t, err)
	require.Contains(t, string(got), `"nextRunAt":null`)
	require.NotContains(t, string(got), "2199")

	// The offset of jitter depends on the endpoint.
	answers := map[string]bool{}
	for i := range 5 {
		got, err = httpapi.Explain(fmt.Appendf(nil, `{"baselineCron":"H H * * *","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e9%d"}`, i), now)
		require.NoError(t, err)
		answers[string(got)] = true
	}
	require.Greater(t, len(answers), 1)
}

func TestExplainRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts string
		code  errs.Code
		want  []string
	}{
		"NoBaseline":     {`{}`, errs.Invalid, []string{"baselineIntervalMs schedule_required"}},
		"TwoBaselines":   {`{"baselineIntervalMs":1000,"baselineCron":"@daily"}`, errs.Invalid, []string{"baselineCron schedule_ambiguous"}},
		"Clamps":         {`{"baselineIntervalMs":999,"minIntervalMs":2000,"maxIntervalMs":1000}`, errs.Invalid, []string{"baselineIntervalMs out_of_range", "minIntervalMs clamp_order"}},
		"CronAndZone":    {`{"baselineCron":"0 0 30 2 *","timezone":"Mars/Olympus"}`, errs.Invalid, []string{"baselineCron cron_never_fires", "timezone timezone_invalid"}},
		"Hints":          {`{"baselineIntervalMs":1000,"hints":{"interval":{"intervalMs":1},"oneShot":{}}}`, errs.Invalid, []string{"hints.interval.expiresAt required", "hints.oneShot.at required", "hints.oneShot.expiresAt required", "hints.interval.intervalMs out_of_range"}},
		"Cause":          {`{"baselineIntervalMs":1000,"cause":"whim","failureCount":-1}`, errs.Invalid, []string{"cause invalid_value", "failureCount out_of_range"}},
		"Instants":       {`{"baselineIntervalMs":1000,"now":"0001-01-01T00:00:00Z","anchor":"9999-12-31T23:59:59-23:00"}`, errs.Invalid, []string{"now out_of_range", "anchor out_of_range"}},
		"Malformed":      {`{"baselineIntervalMs":"x","nope":1,"jitterMs":-1,"anchor":"noon","endpointId":"5"}`, errs.Malformed, []string{"baselineIntervalMs invalid_type", "nope unknown_field", "anchor invalid_time", "endpointId invalid_id", "jitterMs out_of_range"}},
		"EndpointFields": {`{"baselineIntervalMs":1000,"url":"https://a.example","name":"p"}`, errs.Malformed, []string{"url unknown_field", "name unknown_field"}},
		"NotJSON":        {`baselineIntervalMs: 5`, errs.Malformed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := httpapi.Explain([]byte(tc.facts), now)
			require.Equal(t, tc.code, errs.CodeOf(err), "%v", err)
			var got []string
			for _, f := range errs.FieldsOf(err) {
				got = append(got, f.Field+" "+f.Code)
			}
			require.ElementsMatch(t, tc.want, got)
		})
	}
}

// FuzzExplain: any input gets a decision or a refusal.
func FuzzExplain(f *testing.F) {
	f.Add([]byte(`{"baselineCron":"30 2 * * *","timezone":"America/New_York","dst":{"gap":"skip"},"now":"2026-03-08T00:00:00Z","jitterMs":5}`))
	f.Add([]byte(`{"baselineIntervalMs":31622400000,"failureCount":1000000,"anchor":"9999-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := httpapi.Explain(body, time.Unix(0, 0))
		if err != nil {
			require.Contains(t, []errs.Code{errs.Malformed, errs.Invalid}, errs.CodeOf(err), "%v", err)
			return
		}
		require.True(t, json.Valid(answer))
	})
}
