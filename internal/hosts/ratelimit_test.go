package hosts_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/hosts"
)

func TestResetAfterReadsTheFormsOfRateLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"none":           {http.Header{}, 0},
		"some left":      {http.Header{"Ratelimit-Remaining": {"3"}, "Ratelimit-Reset": {"30"}}, 0},
		"none left":      {http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"30"}}, 30 * time.Second},
		"old prefix":     {http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1.5"}}, 1500 * time.Millisecond},
		"instant":        {http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {strconv.FormatInt(noon.Unix()+60, 10)}}, time.Minute},
		"past instant":   {http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {strconv.FormatInt(noon.Unix()-60, 10)}}, 0},
		"one header":     {http.Header{"Ratelimit": {"limit=100, remaining=0, reset=5"}}, 5 * time.Second},
		"structured":     {http.Header{"Ratelimit": {`"default";r=0;t=7`}}, 7 * time.Second},
		"structured, on": {http.Header{"Ratelimit": {`"default";r=9;t=7`}}, 0},
		"too long":       {http.Header{"Ratelimit": {`"day";r=0;t=86400`}}, 15 * time.Minute},
		"no number":      {http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"NaN"}}, 0},
		"no reset":       {http.Header{"Ratelimit-Remaining": {"0"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, hosts.ResetAfter(c.header, noon))
		})
	}
}
