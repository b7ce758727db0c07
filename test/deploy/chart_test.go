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

// setByTheChart are settings that `config` of the chart lacks: the chart sets them itself, or no
// daemon reads them.
func setByTheChart() []string {
	return []string{
		config.Listen, config.AdminListen, config.Grace, config.LogFormat, "RUBATO_EGRESS_ALLOW", "OTEL_SERVICE_NAME", config.ServerURL,
	}
}

// TestChartSchemaHasEverySetting compares the names in the chart's `config` with the settings.
// test/helm checks the types of each.
func TestChartSchemaHasEverySetting(t *testing.T) {
	t.Parallel()
	var want []string
	for _, s := range config.Settings() {
		// The addresses of collectors rarely hold a password. They are permitted here and hidden
		// when shown.
		open := !s.Secret || strings.HasPrefix(s.Name, "OTEL_")
		if open && !slices.Contains(setByTheChart(), s.Name) {
			want = append(want, s.Name)
		}
	}
	for _, s := range config.Settings() { // A path is no secret, even if the file holds one.
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

// TestTheChartHasNoCopies requires that the chart's alert rules and dashboard are links to the
// tested ones. Helm follows links.
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
