package request

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostOfATargetIsNamedAsEgressNamesIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, hostOf("http://Target.example/a?b"), hostOf("http://target.example/c"))
	require.Equal(t, hostOf("https://target.example/"), hostOf("https://Target.example.:443/"))
	require.NotEqual(t, hostOf("http://target.example/"), hostOf("https://target.example/"))
	require.NotEqual(t, hostOf("http://target.example/"), hostOf("http://target.example:8080/"))
	require.Empty(t, hostOf("http://{{secret.host}}/"), "only a run knows")
}
