package request

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// TestHeadersOfSuccessfulAnswersAreFollowed sends both headers with every answer.
func TestHeadersOfSuccessfulAnswersAreFollowed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 8, 1, 30, 0, 1, time.UTC) // A nanosecond past a whole millisecond.
	later := func(d time.Duration) time.Time { return at.Add(d + time.Millisecond - 1) }
	both := func(next, control string) http.Header {
		return http.Header{"Rubato-Next": {next}, "Cache-Control": {control}}
	}
	follow := endpoints.Spec{FollowNext: true, FollowMaxAge: true}
	for name, tc := range map[string]struct {
		spec        endpoints.Spec
		answer      egress.Response
		next, fresh time.Time
	}{
		"NextWins":         {follow, egress.Response{StatusCode: 200, Header: both("45", "max-age=60")}, later(45 * time.Second), time.Time{}},
		"NextAtLeast":      {follow, egress.Response{StatusCode: 204, Header: both("0", "")}, later(time.Second), time.Time{}},
		"NextAtMost":       {follow, egress.Response{StatusCode: 200, Header: both("86401", "")}, later(24 * time.Hour), time.Time{}},
		"FreshWithoutNext": {follow, egress.Response{StatusCode: 200, Header: both("soon", "max-age=60")}, time.Time{}, later(time.Minute)},
		"FreshAtMost":      {follow, egress.Response{StatusCode: 200, Header: both("", "max-age=86401")}, time.Time{}, later(24 * time.Hour)},
		"Stale":            {follow, egress.Response{StatusCode: 200, Header: both("", "max-age=0")}, time.Time{}, time.Time{}},
		"NextOff":          {endpoints.Spec{FollowMaxAge: true}, egress.Response{StatusCode: 200, Header: both("45", "max-age=60")}, time.Time{}, later(time.Minute)},
		"FreshOff":         {endpoints.Spec{FollowNext: true}, egress.Response{StatusCode: 200, Header: both("", "max-age=60")}, time.Time{}, time.Time{}},
		"NotFound":         {follow, egress.Response{StatusCode: 404, Header: both("45", "max-age=60")}, time.Time{}, time.Time{}},
		"AnotherHost":      {follow, egress.Response{StatusCode: 200, Elsewhere: true, Header: both("45", "max-age=60")}, time.Time{}, time.Time{}},
		"NotAskedIf304":    {follow, egress.Response{StatusCode: 304, Header: both("45", "max-age=60")}, time.Time{}, time.Time{}},
	} {
		var o runs.Outcome
		(&Target{Spec: &tc.spec}).followHeaders(&o, Exchange{Answer: tc.answer, At: at})
		require.Equal(t, tc.next, o.TargetNext, name)
		require.Equal(t, tc.fresh, o.FreshUntil, name)
	}
	var o runs.Outcome
	asked := &Target{Spec: &follow, Validators: &runs.Validators{ETag: `"a"`}}
	asked.followHeaders(&o, Exchange{Answer: egress.Response{StatusCode: 304, Header: both("45", "")}, At: at})
	require.Equal(t, later(45*time.Second), o.TargetNext, "a 304 to a conditional request is a successful answer")
}
