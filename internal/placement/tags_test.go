package placement_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/placement"
)

func TestTagsAreNamesWithValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"region=eu": true, "net=Internal-2": true, "a.b_c-d=1.2_3": true, placement.IPv6: true,
		"": false, "region": false, "region=": false, "=eu": false, "Region=eu": false, "1a=b": false, "a=b c": false, "a=b=c": false, "a=b\n": false,
		strings.Repeat("a", 63) + "=" + strings.Repeat("b", 63): true, strings.Repeat("a", 64) + "=b": false, "a=" + strings.Repeat("b", 64): false,
	} {
		require.Equal(t, want, placement.Valid(text), text)
	}
}

func TestTagsOfAWorkerAreSortedAndRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	tags, err := placement.Parse("region=eu, net=internal,region=eu")
	require.NoError(t, err)
	require.Equal(t, []string{"net=internal", "region=eu"}, tags)
	for _, bad := range []string{"region", "region=eu,", "capability=ipv6", "region=eu,net"} {
		_, err := placement.Parse(bad)
		require.Error(t, err, bad)
	}
}
