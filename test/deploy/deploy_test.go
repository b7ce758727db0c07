// Package deploy tests the files that ship beside the programs: the image, the compose file, the
// chart and the settings of the monitoring name only things that exist.
package deploy

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rubato/internal/config"
)

const root = "../.."

// composeFile is the part of the compose format that the file may use: a key outside of it fails
// the test.
type composeFile struct {
	Name        string             `yaml:"name"`
	Program     any                `yaml:"x-program"`
	Database    any                `yaml:"x-database"`
	Daemon      any                `yaml:"x-daemon"`
	Healthcheck any                `yaml:"x-healthcheck"`
	Services    map[string]service `yaml:"services"`
	Volumes     map[string]any     `yaml:"volumes"`
}

type service struct {
	Profiles        []string                     `yaml:"profiles"`
	Image           string                       `yaml:"image"`
	Build           buildOf                      `yaml:"build"`
	Restart         string                       `yaml:"restart"`
	User            string                       `yaml:"user"`
	ReadOnly        bool                         `yaml:"read_only"`
	CapDrop         []string                     `yaml:"cap_drop"`
	SecurityOpt     []string                     `yaml:"security_opt"`
	Entrypoint      []string                     `yaml:"entrypoint"`
	Command         []string                     `yaml:"command"`
	Environment     map[string]string            `yaml:"environment"`
	Ports           []string                     `yaml:"ports"`
	Volumes         []string                     `yaml:"volumes"`
	StopGracePeriod string                       `yaml:"stop_grace_period"`
	Deploy          struct{ Replicas int }       `yaml:"deploy"`
	Healthcheck     healthcheck                  `yaml:"healthcheck"`
	DependsOn       map[string]map[string]string `yaml:"depends_on"`
}

type healthcheck struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	Timeout     string   `yaml:"timeout"`
	Retries     int      `yaml:"retries"`
	StartPeriod string   `yaml:"start_period"`
}

// buildOf is the build section of a service.
type buildOf struct {
	Context string            `yaml:"context"`
	Args    map[string]string `yaml:"args"`
}

// ours reports whether a service is a program of Rubato.
func (s service) ours() bool { return s.Image == "rubato" }

func readCompose(t *testing.T) composeFile {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, "docker-compose.yml")))
	decoder.KnownFields(true)
	var c composeFile
	require.NoError(t, decoder.Decode(&c))
	return c
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return text
}

// environ returns the environment of a service, expanded as on a machine that sets none of the
// variables.
func (s service) environ() []string {
	fallback := regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)
	var list []string
	for name, value := range s.Environment {
		list = append(list, name+"="+fallback.ReplaceAllString(value, "$1"))
	}
	return list
}

func TestComposeRunsEveryProgram(t *testing.T) {
	t.Parallel()
	c := readCompose(t)

	require.ElementsMatch(t, []string{"postgres", "migrate", "api", "scheduler-worker", "planner", "prometheus", "tempo", "grafana"}, slices.Collect(maps.Keys(c.Services)))
	require.Contains(t, c.Services, "postgres")
	require.Equal(t, []string{"migrate", "up"}, c.Services["migrate"].Command)
	require.Equal(t, []string{"/api"}, c.Services["api"].Entrypoint)
	require.Equal(t, []string{"/scheduler-worker"}, c.Services["scheduler-worker"].Entrypoint)
	require.Equal(t, []string{"/planner"}, c.Services["planner"].Entrypoint)
	require.Equal(t, 2, c.Services["scheduler-worker"].Deploy.Replicas)
	require.Regexp(t, `^postgres:1[5-9]$`, c.Services["postgres"].Image)
	for name, s := range c.Services {
		if s.ours() {
			require.Equal(t, "rubato", s.Image, name)
			require.Equal(t, ".", s.Build.Context, name)
			require.True(t, s.ReadOnly, "%s writes nothing", name)
			require.Equal(t, []string{"ALL"}, s.CapDrop, name)
			require.NotEmpty(t, s.SecurityOpt, name)
			require.Empty(t, s.Profiles, "%s is part of every installation", name)
		}
		require.NotEmpty(t, s.Restart, name)
	}
}

func TestComposeGivesEveryProgramAnEnvironmentThatItAccepts(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t).Services {
		if !s.ours() {
			continue
		}
		cfg, err := config.Load(s.environ(), config.Program{Required: []string{config.DatabaseURL}})
		require.NoError(t, err, name)
		require.Contains(t, cfg.Database.URL, "@postgres:5432/", name)
		// They end their open requests first; the API's requests are short.
		if name == "scheduler-worker" || name == "planner" {
			patience, err := time.ParseDuration(s.StopGracePeriod)
			require.NoError(t, err, name)
			require.Greater(t, patience, cfg.Worker.ShutdownGrace+5*time.Second, "%s must have the time to drain", name)
		}
	}
}

// Every daemon in the compose file has the keys of secrets, because the API server seals secrets
// and workers open them.
func TestComposeGivesEveryDaemonTheKeysOfSecrets(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t).Services {
		if s.ours() && name != "migrate" {
			require.Equal(t, "${RUBATO_SECRET_KEYS:-}", s.Environment[config.SecretKeys], name)
		}
	}
}

func TestComposeExposesOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	ports := map[string][]string{
		"api": {"127.0.0.1:8080:8080"}, "prometheus": {"127.0.0.1:9091:9090"}, "grafana": {"127.0.0.1:3000:3000"},
	}
	c := readCompose(t)
	for name, s := range c.Services {
		require.Equal(t, ports[name], s.Ports, name)
	}
	require.Equal(t, ":8080", c.Services["api"].Environment[config.Listen])
	require.NotEmpty(t, c.Services["api"].Environment["RUBATO_BOOTSTRAP_API_KEY"])
}

func TestComposeStartsThingsInOrderAndWatchesThem(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	conditions := map[string]map[string]string{
		"migrate":          {"postgres": "service_healthy"},
		"api":              {"migrate": "service_completed_successfully"},
		"scheduler-worker": {"migrate": "service_completed_successfully"},
		"planner":          {"migrate": "service_completed_successfully"},
		"grafana":          {"prometheus": "service_healthy"},
	}
	for name, s := range c.Services {
		for on, how := range s.DependsOn {
			require.Contains(t, c.Services, on)
			require.Equal(t, conditions[name][on], how["condition"], "%s on %s", name, on)
		}
		require.Len(t, s.DependsOn, len(conditions[name]), name)
		for _, v := range s.Volumes {
			volume, at, _ := strings.Cut(v, ":")
			if file, ours := strings.CutPrefix(volume, "./"); ours {
				_, err := os.Stat(filepath.Join(root, file))
				require.NoError(t, err, name)
				require.True(t, strings.HasSuffix(at, ":ro"), "%s writes into the repository", name)
				continue
			}
			require.Contains(t, c.Volumes, volume)
		}
		// migrate ends by itself, and the image of tempo has no program for a health check.
		if name == "migrate" || name == "tempo" {
			continue
		}
		require.GreaterOrEqual(t, len(s.Healthcheck.Test), 2, name)
		require.Equal(t, "CMD", s.Healthcheck.Test[0], "the image has no shell")
		require.Positive(t, s.Healthcheck.Retries, name)
		for _, d := range []string{s.Healthcheck.Interval, s.Healthcheck.Timeout} {
			_, err := time.ParseDuration(d)
			require.NoError(t, err, name)
		}
	}
	require.Equal(t, []string{"CMD", "/api", "--health"}, c.Services["api"].Healthcheck.Test)
	require.Equal(t, []string{"CMD", "/scheduler-worker", "--health"}, c.Services["scheduler-worker"].Healthcheck.Test)
}

func TestImageHoldsEveryProgramAndNothingElse(t *testing.T) {
	t.Parallel()
	var stages, programs []string
	var user, entrypoint string
	copied := map[string]string{}
	for _, in := range instructions(t) {
		switch in.name {
		case "FROM":
			stages = append(stages, in.stage)
		case "COPY":
			if in.stage == "scratch" && in.words[0] == "--from=build" {
				copied[in.words[2]] = in.words[1]
				continue
			}
			for _, source := range in.words[:len(in.words)-1] {
				_, err := os.Stat(filepath.Join(root, source))
				require.NoError(t, err)
			}
		case "RUN":
			for _, word := range in.words {
				if dir, found := strings.CutPrefix(word, "./cmd/"); found {
					require.FileExists(t, filepath.Join(root, "cmd", dir, "main.go"))
					programs = append(programs, dir)
				}
			}
		case "USER":
			user = in.text
		case "ENTRYPOINT":
			entrypoint = strings.Trim(in.text, `[]"`)
		}
	}

	require.Equal(t, []string{"golang:1.26-alpine", "scratch"}, stages)
	require.Equal(t, []string{"api", "scheduler-worker", "planner", "rubato"}, programs)
	want := map[string]string{"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt"}
	for _, name := range programs {
		want["/"+name] = "/out/" + name
	}
	require.Equal(t, want, copied)
	require.Contains(t, copied, entrypoint)
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, user, "an unprivileged user by number: the image has no list of names")
}

// The image is built with the Go release of the module, and the programs carry the time zone data
// that the image lacks.
func TestImageIsBuiltWithTheGoOfTheModuleAndCarriesZones(t *testing.T) {
	t.Parallel()
	module := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, "go.mod"))
	require.NotNil(t, module)
	require.Contains(t, string(read(t, "Dockerfile")), "FROM golang:"+string(module[1])+"-alpine")
	zones := false
	files, err := filepath.Glob(filepath.Join(root, "internal/schedule/*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		zones = zones || !strings.HasSuffix(file, "_test.go") && bytes.Contains(text, []byte(`_ "time/tzdata"`))
	}
	require.True(t, zones)
}
