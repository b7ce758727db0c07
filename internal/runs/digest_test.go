package runs_test

import (
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/runs"
)

// TestDigestsArePublishedOnes has values from the authors of the hash: recorded digests are
// compared for as long as there are runs.
func TestDigestsArePublishedOnes(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]uint64{"": 0, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8} {
		require.Equal(t, want, runs.Digest([]byte(body)), "%q", body)
	}
	rapid.Check(t, func(rt *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(rt, "body")
		h := fnv.New64a()
		h.Write(body)
		if h.Sum64() != runs.Digest(body) {
			rt.Fatalf("%x", body)
		}
	})
}
