package app_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/app/dev"
	"rubato/internal/config"
	"rubato/internal/devpg/devpgtest"
)

var update = flag.Bool("update", false, "write the table of metrics into docs/operations.md")

const (
	operations = "../../docs/operations.md"
	tableBegin = "<!-- metrics: written by go test ./internal/app -run Metrics -update -->\n"
	tableEnd   = "<!-- end of metrics -->\n"
	maxSeries  = 850 // upper bound for one program under any load
	maxValues  = 40  // of a label; an enum has fewer
)

// family is a metric as a program exposes it.
type family struct {
	name, kind, help string
	labels           map[string][]string // values by label; le left out
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"`)
)

// exposition reads the text that a program answers to a scrape. It returns the families by name and
// the number of series.
func exposition(t *testing.T, text string) (families map[string]*family, series int) {
	t.Helper()
	families = map[string]*family{}
	var f *family
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if help, found := strings.CutPrefix(line, "# HELP "); found {
			name, meaning, _ := strings.Cut(help, " ")
			require.NotContains(t, families, name)
			f = &family{name: name, help: meaning, labels: map[string][]string{}}
			families[name] = f
			continue
		}
		if kind, found := strings.CutPrefix(line, "# TYPE "); found {
			f.kind = strings.TrimPrefix(kind, f.name+" ")
			continue
		}
		sample := sampleLine.FindStringSubmatch(line)
		require.NotNil(t, sample, "%q", line)
		require.True(t, strings.HasPrefix(sample[1], f.name), "%q after %s", line, f.name)
		series++
		for _, pair := range labelPair.FindAllStringSubmatch(sample[2], -1) {
			if pair[1] != "le" && !slices.Contains(f.labels[pair[1]], pair[2]) {
				f.labels[pair[1]] = append(f.labels[pair[1]], pair[2])
			}
		}
	}
	return families, series
}

// ours returns the names of the metrics that are Rubato's own.
func ours(families map[string]*family) []string {
	names := slices.Collect(maps.Keys(families))
	return slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return !strings.HasPrefix(name, "rubato_") })
}

// scrapes returns what each program exposes right after its start.
func scrapes(t *testing.T) map[string]string {
	t.Helper()
	discard := slog.New(slog.DiscardHandler)
	cfg := settings(t, migrated(t))
	api := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return apiserver.API{Settings: cfg, Logger: discard, Started: started}.Run(ctx)
	})
	worker := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return app.Worker{Settings: cfg, Logger: discard, Started: started}.Run(ctx)
	})
	steering := settings(t, migrated(t))
	steering.Model = config.Model{Name: "never-asked", BaseURL: "http://127.0.0.1:1", SessionTokens: 5000, AnswerTokens: 500}
	planner := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return app.Planner{Settings: steering, Logger: discard, Started: started}.Run(ctx)
	})
	data, all, home := devpgtest.Dir(t), settings(t, migrated(t), "RUBATO_PUBLIC_METRICS=true"), dev.FindHome([]string{"HOME=" + t.TempDir()})
	all.Model = steering.Model
	whole := background(t, func(ctx context.Context, ready func(dev.Credentials)) error {
		return dev.Server{Settings: all, DataDir: data, Home: home, Logger: discard, Ready: ready}.Run(ctx)
	})
	return map[string]string{
		"api": bodyOf(t, api.Admin+"/metrics"), "scheduler-worker": bodyOf(t, worker.Admin+"/metrics"),
		"planner": bodyOf(t, planner.Admin+"/metrics"), "dev": bodyOf(t, whole.URL+"/metrics"),
	}
}

// TestMetricsAreThoseThatAreDocumented compares the metrics of the real programs with the table of
// the operations manual: names, types, labels with their values, meaning.
func TestMetricsAreThoseThatAreDocumented(t *testing.T) {
	t.Parallel()
	programs := map[string]map[string]*family{}
	for program, text := range scrapes(t) {
		families, series := exposition(t, text)
		require.LessOrEqual(t, series, maxSeries, program)
		for _, standard := range []string{"go_goroutines", "process_cpu_seconds_total", "go_build_info", "promhttp_metric_handler_errors_total"} {
			require.Contains(t, families, standard, program)
		}
		programs[program] = families
		t.Logf("%s exposes %d series", program, series)
	}
	all := maps.Clone(programs["api"])
	maps.Copy(all, programs["scheduler-worker"])
	maps.Copy(all, programs["planner"])
	require.Equal(t, ours(all), ours(programs["dev"]), "rubato dev is every program")

	page, err := os.ReadFile(operations)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(page), tableBegin)
	require.True(t, found, "the page has no table")
	table, tail, found := strings.Cut(rest, tableEnd)
	require.True(t, found, "the table has no end")
	want := metricsTable(t, programs)
	if *update {
		require.NoError(t, os.WriteFile(operations, []byte(head+tableBegin+want+tableEnd+tail), 0o600))
		return
	}
	require.Empty(t, cmp.Diff(want, table), "run go test ./internal/app -run Metrics -update")
}

func metricsTable(t *testing.T, programs map[string]map[string]*family) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| metric | type | labels | of | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range ours(programs["dev"]) {
		f := programs["dev"][name]
		var of []string
		for _, program := range []string{"api", "scheduler-worker", "planner"} {
			if one, has := programs[program][name]; has {
				of = append(of, "`"+program+"`")
				require.Equal(t, f.labels, one.labels, "%s of %s", name, program)
			}
		}
		require.Regexp(t, `^[A-Z0-9].*\.$`, f.help, "%s: the meaning is a sentence", name)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, f.kind, labelsOf(t, f), strings.Join(of, ", "), f.help)
	}
	return b.String()
}

// labelsOf lists the labels of a metric with their values.
func labelsOf(t *testing.T, f *family) string {
	t.Helper()
	var list []string
	for _, label := range slices.Sorted(maps.Keys(f.labels)) {
		require.NotRegexp(t, `tenant|endpoint|worker|host|url|id$`, label, "%s: what grows with use is no label", f.name)
		values := slices.Sorted(slices.Values(f.labels[label]))
		switch label {
		case "route":
			list = append(list, "`route`: those of the contract, else `other`")
		case "version":
			list = append(list, "`version`: of the program")
		default:
			require.LessOrEqual(t, len(values), maxValues, "%s{%s}", f.name, label)
			list = append(list, "`"+label+"`: `"+strings.Join(values, "` `")+"`")
		}
	}
	return strings.Join(list, "; ")
}
