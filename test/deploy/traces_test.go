package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/config"
)

const (
	tempoFile       = "deploy/tempo/tempo.yaml"
	tempoSourceFile = "deploy/grafana/provisioning/datasources/tempo.yaml"
)

// tempoConfig is the part of Tempo's settings that the file may use: a key outside of it fails the
// test.
type tempoConfig struct {
	Server struct {
		Port int `yaml:"http_listen_port"`
	} `yaml:"server"`
	Distributor struct {
		Receivers struct {
			OTLP struct {
				Protocols struct {
					HTTP struct {
						Endpoint string `yaml:"endpoint"`
					} `yaml:"http"`
				} `yaml:"protocols"`
			} `yaml:"otlp"`
		} `yaml:"receivers"`
	} `yaml:"distributor"`
	Storage struct {
		Trace struct {
			Backend string                `yaml:"backend"`
			Local   struct{ Path string } `yaml:"local"`
			WAL     struct{ Path string } `yaml:"wal"`
		} `yaml:"trace"`
	} `yaml:"storage"`
	Compactor struct {
		Compaction struct {
			Retention string `yaml:"block_retention"`
		} `yaml:"compaction"`
	} `yaml:"compactor"`
	Usage struct {
		Reporting bool `yaml:"reporting_enabled"`
	} `yaml:"usage_report"`
}

// dataSources is the part of Grafana's provisioning that the files may use.
type dataSources struct {
	APIVersion  int `yaml:"apiVersion"`
	DataSources []struct {
		Name      string         `yaml:"name"`
		UID       string         `yaml:"uid"`
		Type      string         `yaml:"type"`
		Access    string         `yaml:"access"`
		URL       string         `yaml:"url"`
		IsDefault bool           `yaml:"isDefault"`
		JSONData  map[string]any `yaml:"jsonData"`
	} `yaml:"datasources"`
}

// TestTracesAreWiredUp checks the path of traces from the programs to Tempo and from there to
// Grafana.
func TestTracesAreWiredUp(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	var tempo tempoConfig
	decode(t, tempoFile, &tempo)
	_, port, found := strings.Cut(tempo.Distributor.Receivers.OTLP.Protocols.HTTP.Endpoint, ":")
	require.True(t, found)
	require.Contains(t, string(read(t, "docker-compose.yml")), "#   OTEL_EXPORTER_OTLP_ENDPOINT=http://tempo:"+port+" docker compose --profile monitoring up")
	for _, dir := range []string{tempo.Storage.Trace.Local.Path, tempo.Storage.Trace.WAL.Path} {
		require.True(t, strings.HasPrefix(dir, "/var/tempo/"), dir)
	}
	require.False(t, tempo.Usage.Reporting)
	require.Contains(t, c.Services["tempo"].Volumes, "tempo:/var/tempo")
	require.Contains(t, c.Services["tempo"].Volumes, "./"+filepath.Dir(tempoFile)+":/etc/tempo:ro")
	require.Equal(t, []string{"-config.file=/etc/tempo/" + filepath.Base(tempoFile)}, c.Services["tempo"].Command)

	var source dataSources
	decode(t, tempoSourceFile, &source)
	require.Len(t, source.DataSources, 1)
	require.Equal(t, "tempo", source.DataSources[0].Type)
	require.Equal(t, "http://tempo:3200", source.DataSources[0].URL)
	require.Equal(t, 3200, tempo.Server.Port)
	var metrics dataSources
	decode(t, "deploy/grafana/provisioning/datasources/prometheus.yaml", &metrics)
	require.True(t, metrics.DataSources[0].IsDefault)

	for name, s := range c.Services {
		if !s.ours() || name == "migrate" {
			continue
		}
		off, err := config.Load(s.environ(), config.Program{Required: []string{config.DatabaseURL}})
		require.NoError(t, err)
		require.False(t, off.Trace.On(), "%s makes no traces unless somebody collects them", name)
		require.Equal(t, "rubato-"+name, off.Trace.Service)
		s.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://tempo:" + port
		on, err := config.Load(s.environ(), config.Program{Required: []string{config.DatabaseURL}})
		require.NoError(t, err)
		require.Equal(t, "http://tempo:"+port+"/v1/traces", on.Trace.URL())
	}
}

// TestDashboardFindsTraces requires that the trace queries of the dashboard name spans and
// attributes that exist.
func TestDashboardFindsTraces(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	files, err := filepath.Glob(filepath.Join(root, "internal/tracing/*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source.Write(text)
	}
	services := map[string]bool{}
	for _, s := range readCompose(t).Services {
		services[s.Environment["OTEL_SERVICE_NAME"]] = true
	}
	found := 0
	for _, p := range readDashboard(t).Panels {
		if p.Datasource.UID != "${traces}" {
			continue
		}
		found++
		require.Equal(t, "table", p.Type, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, "traceql", target.QueryType, p.Title)
			for _, name := range regexp.MustCompile(`\bname = "([^"]+)"`).FindAllStringSubmatch(target.Query, -1) {
				known := strings.Contains(source.String(), `"`+name[1]+`"`) || services[name[1]]
				require.True(t, known, "%s: nothing is called %s", p.Title, name[1])
			}
			for _, attribute := range regexp.MustCompile(`\bspan\.(rubato\.[\w.]+)`).FindAllStringSubmatch(target.Query, -1) {
				require.Contains(t, source.String(), `"`+attribute[1]+`"`, p.Title)
			}
		}
	}
	require.Equal(t, 2, found)
}
