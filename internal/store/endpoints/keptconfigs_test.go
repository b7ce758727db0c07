package endpoints

import (
	"container/list"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

// TestConfigurationSizeIsNotUnderestimated adds up the memory of a cache entry beside its texts.
func TestConfigurationSizeIsNotUnderestimated(t *testing.T) {
	t.Parallel()
	entry := 2 * (unsafe.Sizeof([16]byte{}) + unsafe.Sizeof(&list.Element{})) // Of a map that is half full.
	require.LessOrEqual(t, unsafe.Sizeof(Config{})+unsafe.Sizeof(list.Element{})+entry, uintptr(configBytes/2))
}

// TestAKeptConfigurationGivesItsEndpointBack compares the configuration in a cache entry with the
// one that the API reads from the same row.
func TestAKeptConfigurationGivesItsEndpointBack(t *testing.T) {
	t.Parallel()
	row := plainRow()
	row.Spec = json.RawMessage(strings.Replace(string(row.Spec), "{", `{"labels":{"team":"core"},"headers":{"X-Team":"core"},`, 1))
	state := endpoints.State{FailureCount: 3, PauseReason: "for a while"}
	want := endpointOf(row)
	require.NoError(t, want.Fault)
	kept := parse(row)
	require.NoError(t, kept.Fault)
	want.State, want.Cron = state, kept.cron
	require.Equal(t, *want, kept.endpoint(state))
	require.NotNil(t, kept.cron)
	require.Equal(t, &kept.spec, kept.Target.Spec)
	require.Equal(t, row.TenantID, kept.Target.TenantID)
}

// TestConfigurationsShareEqualParts reads pairs of rows, as two claims would.
func TestConfigurationsShareEqualParts(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(s *endpoints.Spec) string{
		"method":   func(s *endpoints.Spec) string { return s.Method },
		"cron":     func(s *endpoints.Spec) string { return s.BaselineCron },
		"timezone": func(s *endpoints.Spec) string { return s.Timezone },
		"gap":      func(s *endpoints.Spec) string { return string(s.DST.Gap) },
		"overlap":  func(s *endpoints.Spec) string { return string(s.DST.Overlap) },
		"catch-up": func(s *endpoints.Spec) string { return string(s.CatchUp) },
		"success":  func(s *endpoints.Spec) string { return s.Success },
		"planner":  func(s *endpoints.Spec) string { return string(s.Planner) },
	} {
		shared := 0
		for range 100 { // A collection of garbage can part a pair, not a hundred of them.
			one, other := parse(plainRow()), parse(plainRow())
			require.NotEmpty(t, text(&one.spec), name)
			if unsafe.StringData(text(&one.spec)) == unsafe.StringData(text(&other.spec)) {
				shared++
			}
		}
		require.Greater(t, shared, 50, name)
	}
	one, other := parse(plainRow()), parse(plainRow())
	require.NoError(t, one.Fault)
	require.Equal(t, one.Target.Success, other.Target.Success)
	require.Nil(t, one.spec.Labels)
	require.Nil(t, one.spec.Headers)
	require.Nil(t, one.Target.Header)
}

// plainRow returns a row as the database would, with texts of its own.
func plainRow() *dbsqlc.Endpoint {
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineCron, spec.Timezone, spec.Planner = "plain", "https://example.com/", "*/5 * * * *", "Europe/Berlin", endpoints.PlannerOff
	spec = spec.Normalize()
	return &dbsqlc.Endpoint{
		ID: [16]byte{1}, TenantID: [16]byte{2}, Version: 3, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(2, 0), Spec: documentOf(&spec),
	}
}
