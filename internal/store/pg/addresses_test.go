package pg

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressesOfDatabases(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"postgres://u:p@db.corp.example/rubato":          {"db.corp.example:5432"},
		"postgres://u:p@10.0.0.7:6432/rubato":            {"10.0.0.7:6432"},
		"postgres://u:p@a.example:1,b.example:2/rubato":  {"a.example:1", "b.example:2"},
		"postgres://u:p@[fd00::1]:5433/rubato":           {"[fd00::1]:5433"},
		"postgres:///rubato?host=/run/postgresql&user=u": nil,
		"::": nil,
	} {
		got := Addresses(url)
		slices.Sort(got)
		require.Equal(t, want, slices.Compact(got), url)
	}
}
