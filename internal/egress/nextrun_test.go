package egress

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNextRunIsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 1, 30, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"45": 45 * time.Second, "0": 0, "Sun, 08 Mar 2026 01:31:00 GMT": time.Minute, "Thu, 01 Jan 1970 00:00:00 GMT": 0,
	} {
		at, ok := NextRun(http.Header{"Rubato-Next": {value}}, now)
		require.True(t, ok, value)
		require.Equal(t, now.Add(want), at, value)
	}
	for _, value := range []string{"", "soon", "-45", "45s", "4.5"} {
		_, ok := NextRun(http.Header{"Rubato-Next": {value}}, now)
		require.False(t, ok, value)
	}
	_, ok := NextRun(http.Header{"Retry-After": {"45"}}, now)
	require.False(t, ok)
}

func TestFreshnessIsRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		control []string
		age     string
		want    time.Duration // negative: unknown
	}{
		"None":            {nil, "", -1},
		"MaxAge":          {[]string{"max-age=60"}, "", time.Minute},
		"OfSeveral":       {[]string{"public, MAX-AGE=60, must-revalidate"}, "", time.Minute},
		"InASecondHeader": {[]string{"public", "max-age=60"}, "", time.Minute},
		"Quoted":          {[]string{`max-age="60"`}, "", time.Minute},
		"LessAge":         {[]string{"max-age=60"}, "45", 15 * time.Second},
		"Stale":           {[]string{"max-age=60"}, "61", 0},
		"BadAge":          {[]string{"max-age=60"}, "old", time.Minute},
		"NoStore":         {[]string{"max-age=60, no-store"}, "", -1},
		"NoCache":         {[]string{"no-cache", "max-age=60"}, "", -1},
		"SharedOnly":      {[]string{"s-maxage=60"}, "", -1},
		"FirstOfTwo":      {[]string{"max-age=60, max-age=90"}, "", time.Minute},
		"Negative":        {[]string{"max-age=-1"}, "", -1},
		"Words":           {[]string{"max-age=long"}, "", -1},
		"Bare":            {[]string{"max-age"}, "", -1},
		"Huge":            {[]string{"max-age=100000000000000000000"}, "", maxRetryAfter},
	} {
		h := http.Header{"Cache-Control": tc.control}
		if tc.age != "" {
			h.Set("Age", tc.age)
		}
		fresh, ok := FreshFor(h)
		require.Equal(t, tc.want >= 0, ok, name)
		require.Equal(t, max(tc.want, 0), fresh, name)
	}
}
