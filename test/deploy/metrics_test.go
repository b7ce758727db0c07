package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metric is a metric that rules and dashboards may use, with its labels.
type metric struct {
	kind   string
	labels map[string][]string // values by label; none listed: any
}

var (
	tableRow   = regexp.MustCompile("(?m)^\\| `(rubato_\\w+)` \\| (\\w+) \\| (.*?) \\| [^|]* \\| [^|]* \\|$")
	tableLabel = regexp.MustCompile("^`(\\w+)`: (.*)$")
	quoted     = regexp.MustCompile("`([^`]+)`")
	open       = []string{"route", "version"} // labels without listed values in the table
)

// standard are the library metrics that rules and dashboards may use.
func standard() map[string]metric {
	m := map[string]metric{}
	for name, kind := range map[string]string{
		"up": "gauge", "go_goroutines": "gauge", "process_cpu_seconds_total": "counter", "process_resident_memory_bytes": "gauge",
	} {
		m[name] = metric{kind: kind}
	}
	return m
}

// documented returns the metrics in the table of the operations manual, with the series of each
// histogram. Another test compares that table with the metrics of the programs.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	m := standard()
	for _, row := range tableRow.FindAllStringSubmatch(string(read(t, "docs/operations.md")), -1) {
		one := metric{kind: row[2], labels: map[string][]string{}}
		for cell := range strings.SplitSeq(row[3], "; ") {
			found := tableLabel.FindStringSubmatch(cell)
			if found == nil {
				require.Empty(t, strings.TrimSpace(cell), row[1])
				continue
			}
			one.labels[found[1]] = nil
			if !slices.Contains(open, found[1]) {
				for _, value := range quoted.FindAllStringSubmatch(found[2], -1) {
					one.labels[found[1]] = append(one.labels[found[1]], value[1])
				}
			}
		}
		m[row[1]] = one
		if one.kind == "histogram" {
			m[row[1]+"_bucket"] = metric{kind: "counter", labels: map[string][]string{"le": nil}}
			m[row[1]+"_count"], m[row[1]+"_sum"] = metric{kind: "counter"}, metric{kind: "counter"}
		}
	}
	require.Greater(t, len(m), 30, "the table is not where it was")
	return m
}

// onEverySeries are the labels that Prometheus adds.
var onEverySeries = []string{"instance", "job"}

var (
	selector = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")`)
	grouping = regexp.MustCompile(`\b(by|without|ignoring|on)\s*\(([^)]*)\)`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
	// words are the keywords of PromQL that the expressions use. An identifier that is neither a
	// keyword nor a metric is a mistake.
	words = []string{
		"abs", "absent", "and", "avg", "avg_over_time", "histogram_quantile", "increase", "max", "max_over_time", "min_over_time", "rate", "sum", "time", "topk", "unless",
	}
)

// used returns the metrics in an expression, and fails if the expression names an unknown one.
func used(t *testing.T, metrics map[string]metric, expr string) []string {
	t.Helper()
	var names []string
	labels := append([]string{}, onEverySeries...)
	rest := ranges.ReplaceAllString(expr, "")
	bare := grouping.ReplaceAllString(rest, "")
	for _, found := range selector.FindAllStringSubmatch(bare, -1) {
		name := found[1]
		m, known := metrics[name]
		if !known {
			require.Contains(t, words, name, "%s: it is neither a metric of ours nor a word that we use", expr)
			continue
		}
		names = append(names, name)
		for label := range m.labels {
			labels = append(labels, label)
		}
		checkMatchers(t, m, found[2], expr)
	}
	require.NotEmpty(t, names, "%s looks at nothing", expr)
	for _, group := range grouping.FindAllStringSubmatch(rest, -1) {
		for label := range strings.SplitSeq(group[2], ",") {
			require.Contains(t, labels, strings.TrimSpace(label), "%s: no metric in it has this label", expr)
		}
	}
	return names
}

// checkMatchers requires that the labels and values of a selector exist.
func checkMatchers(t *testing.T, m metric, braces, expr string) {
	t.Helper()
	require.Empty(t, strings.Trim(matcher.ReplaceAllString(braces, ""), "{}, "), "%s: what is that?", expr)
	for _, match := range matcher.FindAllStringSubmatch(braces, -1) {
		label, value := match[1], strings.Trim(match[3], `"`)
		values, has := m.labels[label]
		if slices.Contains(onEverySeries, label) {
			continue
		}
		require.True(t, has, "%s: the metric has no label %s", expr, label)
		if len(values) > 0 && (match[2] == "=" || match[2] == "!=") {
			require.Contains(t, values, value, "%s: %s is never that", expr, label)
		}
	}
}

func TestExpressionsAreHeldToTheTable(t *testing.T) {
	t.Parallel()
	metrics := documented(t)
	used(t, metrics, `sum by (sweep, instance) (increase(rubato_zombie_errors_total{sweep="lost",instance=~"$instance"}[5m])) > 3`)
	for name, expr := range map[string]string{
		"Metric":        `rate(rubato_runs_ended_total[5m])`,
		"Label":         `rubato_zombie_errors_total{kind="lost"}`,
		"Value":         `rubato_workers{state="asleep"}`,
		"Group":         `sum by (state) (rubato_schedule_due)`,
		"Function":      `median(rubato_schedule_due)`,
		"PartHistogram": `rubato_dispatch_start_lag_seconds_buckets`,
		"Nothing":       `time() > 3`,
		"Operator":      `rubato_workers{state=="active"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, refused(metrics, expr), expr)
		})
	}
}

// refused reports whether the check rejects an expression.
func refused(metrics map[string]metric, expr string) bool {
	probe, done := &testing.T{}, make(chan struct{})
	go func() { defer close(done); used(probe, metrics, expr) }() // A failed requirement ends its goroutine.
	<-done
	return probe.Failed()
}
