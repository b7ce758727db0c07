package deploy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManualCoversEveryMetric requires that each metric is used by an alert with a section in the
// manual, or has a line of its own there. No line may name a missing metric.
func TestManualCoversEveryMetric(t *testing.T) {
	t.Parallel()
	metrics, manual := documented(t), string(read(t, "docs/operations.md"))
	_, section, found := strings.Cut(manual, "\n### What to do by metric\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	told := map[string]bool{}
	for row := range strings.Lines(section) {
		if cells := strings.Split(row, "|"); len(cells) == 5 {
			for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
				require.Contains(t, metrics, name[1], "the manual says what to do about a metric that does not exist")
				told[name[1]] = true
			}
		}
	}
	for _, rule := range alerts(t) {
		for _, name := range used(t, metrics, rule.Expr) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			told[name] = true
		}
	}
	for name := range metrics {
		if strings.HasPrefix(name, "rubato_") && !partOfAHistogram(metrics, name) {
			require.True(t, told[name], "%s has no alert, and docs/operations.md does not say what to do about it", name)
		}
	}
}

// partOfAHistogram reports whether a name is one of the series of a histogram.
func partOfAHistogram(metrics map[string]metric, name string) bool {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if whole, cut := strings.CutSuffix(name, suffix); cut && metrics[whole].kind == "histogram" {
			return true
		}
	}
	return false
}
