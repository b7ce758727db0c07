package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	alertsFile    = "deploy/prometheus/alerts.yaml"
	casesFile     = "deploy/prometheus/alerts_test.yaml"
	scrapeFile    = "deploy/prometheus/prometheus.yml"
	dashboardFile = "deploy/grafana/rubato.json"
)

type rulesFile struct {
	Groups []struct {
		Name  string      `yaml:"name"`
		Rules []alertRule `yaml:"rules"`
	} `yaml:"groups"`
}

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type caseFile struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []struct {
		Name        string `yaml:"name"`
		Interval    string `yaml:"interval"`
		InputSeries []struct {
			Series string `yaml:"series"`
			Values string `yaml:"values"`
		} `yaml:"input_series"`
		AlertRuleTest []struct {
			EvalTime  string `yaml:"eval_time"`
			Alertname string `yaml:"alertname"`
			ExpAlerts []struct {
				ExpLabels      map[string]string `yaml:"exp_labels"`
				ExpAnnotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// decode reads a YAML file and refuses unknown fields.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, name)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(into), name)
}

// alerts returns the alerts by name.
func alerts(t *testing.T) map[string]alertRule {
	t.Helper()
	var file rulesFile
	decode(t, alertsFile, &file)
	list := map[string]alertRule{}
	for _, group := range file.Groups {
		require.Regexp(t, `^rubato-[a-z]+$`, group.Name)
		for _, rule := range group.Rules {
			require.NotContains(t, list, rule.Alert)
			list[rule.Alert] = rule
		}
	}
	require.NotEmpty(t, list)
	return list
}

func TestAlertsUseExistingMetricsAndRunbooks(t *testing.T) {
	t.Parallel()
	metrics, manual := documented(t), string(read(t, "docs/operations.md"))
	for name, rule := range alerts(t) {
		require.Regexp(t, `^Rubato[A-Z]`, name)
		used(t, metrics, rule.Expr)
		require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], name)
		if rule.For != "" {
			_, err := time.ParseDuration(rule.For)
			require.NoError(t, err, name)
		}
		require.NotEmpty(t, rule.Annotations["summary"], name)
		require.Regexp(t, `\.$`, rule.Annotations["description"], name)
		require.Equal(t, "docs/operations.md#"+strings.ToLower(name), rule.Annotations["runbook_url"])
		line := fmt.Sprintf("| %s | [%s](#%s) | %s |\n", rule.Labels["severity"], name, strings.ToLower(name), rule.Annotations["summary"])
		require.Contains(t, manual, line, "the manual lists every alert by what it wakes")
		_, section, found := strings.Cut(manual, "\n### "+name+"\n")
		require.True(t, found, "the operations manual has no section %s", name)
		section, _, _ = strings.Cut(section, "\n### ")
		for _, part := range []string{"**Means.**", "**Look at.**", "**Do.**"} {
			require.Contains(t, section, part, name)
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^### (Rubato\w+)$`).FindAllStringSubmatch(manual, -1) {
		require.Contains(t, alerts(t), section[1], "the operations manual tells of an alert that does not exist")
	}
}

// TestEveryAlertHasACaseInWhichItFires requires two cases of each alert: one in which it fires and
// one in which it does not. promtool runs them where it is installed.
func TestEveryAlertHasACaseInWhichItFires(t *testing.T) {
	t.Parallel()
	var file caseFile
	decode(t, casesFile, &file)
	require.Equal(t, []string{filepath.Base(alertsFile)}, file.RuleFiles)
	metrics, rules := documented(t), alerts(t)
	fires, silent := map[string]bool{}, map[string]bool{}
	names := map[string]bool{}
	for _, one := range file.Tests {
		require.False(t, names[one.Name], "two cases have the name %s", one.Name)
		names[one.Name] = true
		for _, in := range one.InputSeries {
			used(t, metrics, in.Series)
		}
		for _, check := range one.AlertRuleTest {
			require.Contains(t, rules, check.Alertname, one.Name)
			if len(check.ExpAlerts) == 0 {
				silent[check.Alertname] = true
				continue
			}
			fires[check.Alertname] = true
			for _, alert := range check.ExpAlerts {
				require.Equal(t, rules[check.Alertname].Labels["severity"], alert.ExpLabels["severity"], one.Name)
			}
		}
	}
	for name := range rules {
		require.True(t, fires[name], "no case in which %s fires", name)
		require.True(t, silent[name], "no case in which %s stays silent", name)
	}
}

// TestPromtoolAgrees runs promtool on rules, cases and dashboard. CI installs promtool; on a
// machine without it only the other tests check them.
func TestPromtoolAgrees(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		require.Empty(t, os.Getenv("RUBATO_TEST_PROMTOOL"), "promtool was promised, and is not on the PATH")
		return
	}
	expressions := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(expressions, dashboardRules(t), 0o600))
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(root, alertsFile)},
		{"check", "config", filepath.Join(root, scrapeFile)},
		{"test", "rules", filepath.Join(root, casesFile)},
		{"check", "rules", expressions},
	} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "promtool %s:\n%s", strings.Join(args, " "), out)
	}
}

// dashboardRules returns the dashboard's expressions as rules, which promtool can check.
func dashboardRules(t *testing.T) []byte {
	t.Helper()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	type group struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	var rules []rule
	for _, expr := range readDashboard(t).expressions() {
		rules = append(rules, rule{"checked", strings.ReplaceAll(expr, "$__rate_interval", "5m")})
	}
	require.NotEmpty(t, rules)
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.Expr, b.Expr) })
	out, err := json.Marshal(map[string][]group{"groups": {{Name: "dashboard", Rules: slices.Compact(rules)}}}) // JSON is YAML.
	require.NoError(t, err)
	return out
}

// dashboard is the part of a Grafana dashboard that contains its queries.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  struct{ UID string }
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, LegendFormat, RefID, Query, QueryType string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	require.NoError(t, json.Unmarshal(read(t, dashboardFile), &d))
	require.Equal(t, "rubato", d.UID)
	return d
}

func (d dashboard) expressions() []string {
	var list []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			if target.Expr != "" {
				list = append(list, target.Expr)
			}
		}
	}
	return list
}

func TestDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	metrics, rules, d := documented(t), alerts(t), readDashboard(t)
	variables := map[string]bool{"$__rate_interval": true}
	for _, v := range d.Templating.List {
		variables["$"+v.Name] = true
	}
	ids, shown := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the number %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		require.Regexp(t, `\.$`, p.Description, "%s says what it shows", p.Title)
		if p.Datasource.UID == "${traces}" { // TestDashboardFindsTraces checks these queries.
			continue
		}
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		for _, name := range regexp.MustCompile(`Rubato[A-Z]\w+`).FindAllString(p.Description, -1) {
			require.Contains(t, rules, name, p.Title)
		}
		for _, target := range p.Targets {
			require.NotEmpty(t, target.LegendFormat, p.Title)
			for _, v := range regexp.MustCompile(`\$\w+`).FindAllString(target.Expr, -1) {
				require.True(t, variables[v], "%s: %s is no variable of the dashboard", p.Title, v)
			}
			for _, name := range used(t, metrics, target.Expr) {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
	}
	for name := range maps.Keys(metrics) {
		if strings.HasPrefix(name, "rubato_") && !regexp.MustCompile(`_(bucket|sum|count)$`).MatchString(name) {
			require.True(t, shown[name], "no panel shows %s", name)
		}
	}
}

// TestMonitoringIsWiredUp checks that the files and targets in the compose file's Prometheus and
// Grafana settings exist.
func TestMonitoringIsWiredUp(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for _, name := range []string{"prometheus", "tempo", "grafana"} {
		require.Equal(t, []string{"monitoring"}, c.Services[name].Profiles)
		require.Regexp(t, `:v?\d+\.\d+\.\d+$`, c.Services[name].Image, "a release, not whatever is newest")
	}
	var scrape struct {
		RuleFiles []string `yaml:"rule_files"`
		Jobs      []struct {
			Name string `yaml:"job_name"`
			DNS  []struct {
				Names []string `yaml:"names"`
				Type  string   `yaml:"type"`
				Port  int      `yaml:"port"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal(read(t, scrapeFile), &scrape))
	require.Equal(t, []string{filepath.Base(alertsFile)}, scrape.RuleFiles)
	require.Len(t, scrape.Jobs, 3)
	for _, job := range scrape.Jobs {
		require.Equal(t, []string{job.Name}, job.DNS[0].Names)
		require.Equal(t, ":9090", c.Services[job.Name].Environment["RUBATO_ADMIN_LISTEN"], job.Name)
		require.Equal(t, 9090, job.DNS[0].Port)
		require.Equal(t, "A", job.DNS[0].Type)
	}
	require.Contains(t, c.Services["prometheus"].Command, "--config.file=/etc/prometheus/"+filepath.Base(scrapeFile))
	require.Contains(t, string(read(t, "deploy/grafana/provisioning/datasources/prometheus.yaml")), "http://prometheus:9090")
	require.Contains(t, string(read(t, "deploy/grafana/provisioning/dashboards/rubato.yaml")), "/etc/rubato/dashboards")
	require.Contains(t, c.Services["grafana"].Volumes, "./"+dashboardFile+":/etc/rubato/dashboards/"+filepath.Base(dashboardFile)+":ro")
}
