package errs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"cron", "cron", 0},
		{"", "cron", 4},
		{"cron", "crn", 1},
		{"cron", "crown", 1},
		{"cron", "crop", 1},
		{"timeout", "tmieout", 2},
		{"kitten", "sitting", 3},
	} {
		require.Equal(t, c.want, Distance(c.a, c.b), "%s, %s", c.a, c.b)
		require.Equal(t, c.want, Distance(c.b, c.a), "%s, %s", c.b, c.a)
	}
}
