package deploy

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/config"
)

var update = flag.Bool("update", false, "rewrite the parts of files that this package writes")

const schemaFile = "deploy/helm/rubato/values.schema.json"

// setByTheChart are the settings that have values of the chart's own, beside the secrets, or that
// no daemon reads.
func setByTheChart() []string {
	return []string{
		config.Listen, config.AdminListen, config.Grace, config.LogFormat, "RUBATO_EGRESS_ALLOW", "OTEL_SERVICE_NAME", config.ServerURL,
	}
}

// TestChartSchemaHasEverySetting compares the names in the chart's `config` with the settings.
// test/helm tries each against the schema.
func TestChartSchemaHasEverySetting(t *testing.T) {
	t.Parallel()
	var want []string
	for _, s := range config.Settings() {
		// The addresses of collectors may hold a password, and seldom do: they are allowed here, and
		// hidden when shown.
		open := !s.Secret || strings.HasPrefix(s.Name, "OTEL_")
		if open && !slices.Contains(setByTheChart(), s.Name) {
			want = append(want, s.Name)
		}
	}
	for _, s := range config.Settings() { // The path of a file is no secret, whatever the file holds.
		if !slices.Contains(setByTheChart(), s.Name) && s.Name != config.APIKey {
			want = append(want, s.Name+config.FileSuffix)
		}
	}
	names, err := json.Marshal(want)
	require.NoError(t, err)
	list := regexp.MustCompile(`(written by go test ./test/deploy -run Chart -update",\s*"anyOf": \[\s*\{\s*"enum": )\[[^\]]*\]`)
	text := read(t, schemaFile)
	require.Regexp(t, list, string(text), "the list is not where it was")
	fresh := list.ReplaceAllString(string(text), "${1}"+strings.ReplaceAll(string(names), `","`, `", "`))
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, schemaFile), []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(text), "run go test ./test/deploy -run Chart -update")
}

// TestTheChartHasNoCopies requires that the chart's alert rules and dashboard are the ones that are
// tested: links that Helm follows.
func TestTheChartHasNoCopies(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]string{"alerts.yaml": alertsFile, "dashboard.json": dashboardFile} {
		got, err := filepath.EvalSymlinks(filepath.Join(root, "deploy/helm/rubato", name))
		require.NoError(t, err)
		want, err := filepath.EvalSymlinks(filepath.Join(root, of))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
