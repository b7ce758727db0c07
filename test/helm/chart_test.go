package helm

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// programs returns the pods of every program, by its name.
func programs(o objects) map[string]core.PodTemplateSpec {
	list := map[string]core.PodTemplateSpec{}
	for _, d := range all[apps.Deployment](o) {
		list[d.Spec.Template.Labels["app.kubernetes.io/component"]] = d.Spec.Template
	}
	for _, j := range all[batch.Job](o) {
		list[j.Spec.Template.Labels["app.kubernetes.io/component"]] = j.Spec.Template
	}
	return list
}

func environment(c core.Container) map[string]core.EnvVar {
	list := map[string]core.EnvVar{}
	for _, e := range c.Env {
		list[e.Name] = e
	}
	return list
}

func each(t *testing.T, check func(*testing.T, objects)) {
	t.Helper()
	for name, values := range valuesSets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, render(t, values))
		})
	}
}

func TestChartRendersEverySetOfValues(t *testing.T) {
	t.Parallel()
	always := []string{
		"Deployment/rubato-api", "Deployment/rubato-worker", "Service/rubato-api", "Service/rubato-admin",
	}
	for name, more := range map[string][]string{
		"Defaults": {
			"Deployment/rubato-planner", "Job/rubato-migrate", "PodDisruptionBudget/rubato-api", "PodDisruptionBudget/rubato-worker",
			"ServiceAccount/rubato",
		},
		"Minimal": {"ServiceAccount/rubato"},
		"Everything": {
			"Deployment/rubato-planner", "Job/rubato-migrate", "PodDisruptionBudget/rubato-api", "PodDisruptionBudget/rubato-worker",
			"ServiceAccount/runner", "ScaledObject/rubato-worker", "NetworkPolicy/rubato-api", "NetworkPolicy/rubato-scheduler-worker",
			"NetworkPolicy/rubato-planner", "Ingress/rubato-api", "ServiceMonitor/rubato", "PrometheusRule/rubato", "ConfigMap/rubato-dashboard",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ElementsMatch(t, slices.Concat(always, more), slices.Collect(maps.Keys(render(t, valuesSets()[name]))))
		})
	}
}

func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o objects) {
		for name, pod := range programs(o) {
			spec := pod.Spec
			require.False(t, *spec.AutomountServiceAccountToken, name)
			require.False(t, *spec.EnableServiceLinks, "%s: a service's variables would be refused as unknown settings", name)
			require.True(t, *spec.SecurityContext.RunAsNonRoot, name)
			require.Equal(t, int64(65532), *spec.SecurityContext.RunAsUser, "%s: the user of the image", name)
			require.Equal(t, core.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type, name)
			require.Len(t, spec.Containers, 1, name)
			c := spec.Containers[0]
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
			require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
			require.False(t, c.Resources.Limits.Memory().IsZero(), name)
			require.Empty(t, spec.Volumes, "%s writes nothing", name)
		}
		for name, account := range all[core.ServiceAccount](o) {
			require.False(t, *account.AutomountServiceAccountToken, name)
		}
	})
	require.Contains(t, readFile(t, "Dockerfile"), "\nUSER 65532:65532\n")
}

// The commands of the pods are the programs of the image.
func TestPodsRunThePrograms(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"api": {"/api"}, "scheduler-worker": {"/scheduler-worker"}, "planner": {"/planner"}, "migrate": {"/rubato", "migrate", "up"},
	}
	image := readFile(t, "Dockerfile")
	each(t, func(t *testing.T, o objects) {
		for name, pod := range programs(o) {
			require.Equal(t, want[name], pod.Spec.Containers[0].Command, name)
			require.Contains(t, image, "COPY --from=build /out"+want[name][0]+" "+want[name][0]+"\n")
		}
	})
}

// Probes use the routes of the admin listener that the manual names. An unreachable database does
// not restart a pod.
func TestProbesAskTheAdminListener(t *testing.T) {
	t.Parallel()
	require.Regexp(t, "admin, of every daemon \\| `RUBATO_ADMIN_LISTEN`.*`/healthz`, `/readyz`, `/metrics`", readFile(t, "docs/operations.md"))
	each(t, func(t *testing.T, o objects) {
		for name, pod := range programs(o) {
			c := pod.Spec.Containers[0]
			if name == "migrate" {
				require.Nil(t, c.LivenessProbe)
				continue
			}
			ports := map[string]int32{}
			for _, p := range c.Ports {
				ports[p.Name] = p.ContainerPort
			}
			require.Equal(t, ":9090", environment(c)["RUBATO_ADMIN_LISTEN"].Value, name)
			require.Equal(t, int32(9090), ports["admin"], name)
			for path, probe := range map[string]*core.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
				require.Equal(t, path, probe.HTTPGet.Path, name)
				require.Equal(t, "admin", probe.HTTPGet.Port.String(), name)
			}
			require.Equal(t, "/healthz", c.StartupProbe.HTTPGet.Path, name)
			if name == "api" {
				require.Equal(t, ":8080", environment(c)["RUBATO_LISTEN"].Value)
				require.Equal(t, int32(8080), ports["http"])
			}
		}
	})
}

func TestPodsHaveTheTimeToDrain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o objects) {
		pods := programs(o)
		worker := pods["scheduler-worker"].Spec
		grace, err := time.ParseDuration(environment(worker.Containers[0])["RUBATO_SHUTDOWN_GRACE"].Value)
		require.NoError(t, err)
		require.Greater(t, time.Duration(*worker.TerminationGracePeriodSeconds)*time.Second, grace+5*time.Second, "the grace, and 5 s for the records")
		api := pods["api"].Spec
		pause := api.Containers[0].Lifecycle.PreStop.Sleep.Seconds
		require.Positive(t, pause, "a server serves until nobody sends to it any more")
		require.Greater(t, *api.TerminationGracePeriodSeconds, pause+4)
	})
}

// Secrets are references: no secret setting has a value in a pod.
func TestSecretsAreReferences(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o objects) {
		for name, pod := range programs(o) {
			for _, e := range pod.Spec.Containers[0].Env {
				setting, known := settings(t)[e.Name]
				require.True(t, known || strings.HasPrefix(e.Name, "OTEL_"), "%s sets %s, which is no setting", name, e.Name)
				if e.ValueFrom != nil {
					require.NotEmpty(t, e.ValueFrom.SecretKeyRef.Key)
					require.True(t, setting.secret, "%s: %s is no secret", name, e.Name)
					continue
				}
				require.False(t, setting.secret && !strings.HasPrefix(e.Name, "OTEL_"), "%s: the value of %s is in the open", name, e.Name)
			}
			require.Len(t, environment(pod.Spec.Containers[0]), len(pod.Spec.Containers[0].Env), "%s sets something twice", name)
		}
	})
}

type setting struct{ secret bool }

// settings returns the settings by name, from the generated table of the documentation.
func settings(t *testing.T) map[string]setting {
	t.Helper()
	list := map[string]setting{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:RUBATO|OTEL|DATABASE)_\\w+)` \\|.*$").FindAllStringSubmatch(readFile(t, "docs/configuration.md"), -1) {
		list[row[1]] = setting{secret: strings.Contains(row[0], "(secret: never shown)")}
	}
	require.Greater(t, len(list), 30)
	return list
}

// TestProgramsAcceptTheirEnvironment starts each program's check of settings with the environment
// that the chart gives it.
func TestProgramsAcceptTheirEnvironment(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "rubato")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/rubato")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	secrets := map[string]string{
		"DATABASE_URL": "postgres://u:p@pooler/rubato", "RUBATO_DATABASE_DIRECT_URL": "postgres://u:p@db/rubato",
		"RUBATO_SECRET_KEYS": "k1:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "RUBATO_BOOTSTRAP_API_KEY": "an-admin-key", "RUBATO_OPENAI_API_KEY": "sk-test",
		"RUBATO_EGRESS_PROXY": "http://user:password@proxy:3128",
	}
	each(t, func(t *testing.T, o objects) {
		for name, pod := range programs(o) {
			show := exec.CommandContext(t.Context(), program, "config", "--output", "json")
			show.Env = []string{"HOME=" + t.TempDir()}
			for _, e := range pod.Spec.Containers[0].Env {
				value := e.Value
				if e.ValueFrom != nil {
					value = secrets[e.Name]
					require.NotEmpty(t, value, e.Name)
				}
				show.Env = append(show.Env, e.Name+"="+value)
			}
			out, err := show.CombinedOutput()
			require.NoError(t, err, "%s would not start:\n%s", name, out)
		}
	})
}

// Selectors, disruption budgets and network policies match pods that exist.
func TestSelectorsMatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o objects) {
		pods := programs(o)
		matches := func(selector map[string]string) (list []string) {
			for name, pod := range pods {
				hit := true
				for key, value := range selector {
					hit = hit && pod.Labels[key] == value
				}
				if hit {
					list = append(list, name)
				}
			}
			return list
		}
		for key, d := range all[apps.Deployment](o) {
			require.Equal(t, []string{d.Spec.Template.Labels["app.kubernetes.io/component"]}, matches(d.Spec.Selector.MatchLabels), key)
		}
		for key, b := range all[policy.PodDisruptionBudget](o) {
			require.Len(t, matches(b.Spec.Selector.MatchLabels), 1, key)
			require.Equal(t, 1, b.Spec.MaxUnavailable.IntValue(), key)
		}
		for key, p := range all[networking.NetworkPolicy](o) {
			require.Len(t, matches(p.Spec.PodSelector.MatchLabels), 1, key)
		}
		require.Equal(t, []string{"api"}, matches(get[core.Service](t, o, "Service/rubato-api").Spec.Selector))
		require.Len(t, matches(get[core.Service](t, o, "Service/rubato-admin").Spec.Selector), len(pods), "every program is scraped")
	})
}

func TestMigrationsRunBeforeThePrograms(t *testing.T) {
	t.Parallel()
	job := get[batch.Job](t, render(t, "{}"), "Job/rubato-migrate")
	require.Equal(t, "pre-install,pre-upgrade", job.Annotations["helm.sh/hook"])
	require.Empty(t, job.Spec.Template.Spec.ServiceAccountName, "the chart's account does not exist yet")
	require.NotZero(t, *job.Spec.ActiveDeadlineSeconds)
}

// Workers scale on metrics that exist, with the right aggregation: a gauge from the database is the
// same in every process.
func TestScalingUsesExposedMetrics(t *testing.T) {
	t.Parallel()
	o := render(t, valuesSets()["Everything"])
	scaled := get[scaledObject](t, o, "ScaledObject/rubato-worker")
	require.Equal(t, "rubato-worker", scaled.Spec.ScaleTargetRef.Name)
	worker := get[apps.Deployment](t, o, "Deployment/rubato-worker")
	require.Nil(t, worker.Spec.Replicas, "the number belongs to the scaler")
	var queries []string
	for _, trigger := range scaled.Spec.Triggers {
		require.Equal(t, "prometheus", trigger.Type)
		require.Equal(t, "AverageValue", trigger.MetricType)
		require.Regexp(t, `^\d+$`, trigger.Metadata["threshold"])
		queries = append(queries, trigger.Metadata["query"])
	}
	require.Equal(t, []string{
		`max(rubato_schedule_due{namespace="rubato"})`, `sum(rubato_dispatch_slots{state="busy",namespace="rubato"})`,
	}, queries)
	plain := get[scaledObject](t, render(t, "autoscaling: {enabled: true}"), "ScaledObject/rubato-worker")
	require.Equal(t, `max(rubato_schedule_due)`, plain.Spec.Triggers[0].Metadata["query"])
	require.Equal(t, `sum(rubato_dispatch_slots{state="busy"})`, plain.Spec.Triggers[1].Metadata["query"])
	require.EqualValues(t, 2, plain.Spec.Fallback.Replicas)
	table := readFile(t, "docs/operations.md")
	for _, query := range append(queries, plain.Spec.Triggers[0].Metadata["query"]) {
		for _, metric := range regexp.MustCompile(`rubato_\w+`).FindAllString(query, -1) {
			require.Contains(t, table, "| `"+metric+"` |")
		}
	}
	require.Regexp(t, "`rubato_dispatch_slots` \\| gauge \\| `state`: `busy` `free`", table)
}

// The chart ships the alert rules and the dashboard that test/deploy tests.
func TestRulesAndDashboardAreTheOnesThatAreTested(t *testing.T) {
	t.Parallel()
	o := render(t, valuesSets()["Everything"])
	var want monitoring.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict([]byte(readFile(t, "deploy/prometheus/alerts.yaml")), &want))
	rules := get[monitoring.PrometheusRule](t, o, "PrometheusRule/rubato")
	require.NotEmpty(t, want.Groups)
	require.Equal(t, want, rules.Spec)
	require.Equal(t, "prometheus", rules.Labels["release"])
	require.JSONEq(t, readFile(t, "deploy/grafana/rubato.json"), get[core.ConfigMap](t, o, "ConfigMap/rubato-dashboard").Data["rubato.json"])
	monitor := get[monitoring.ServiceMonitor](t, o, "ServiceMonitor/rubato")
	service := get[core.Service](t, o, "Service/rubato-admin")
	for key, value := range monitor.Spec.Selector.MatchLabels {
		require.Equal(t, value, service.Labels[key])
	}
	require.Equal(t, service.Spec.Ports[0].Name, monitor.Spec.Endpoints[0].Port)
	require.Equal(t, "/metrics", monitor.Spec.Endpoints[0].Path)
}

// Network policies forbid the ranges that the product itself refuses, and allow the ranges in the
// values.
func TestNetworkPoliciesAllowRequiredTraffic(t *testing.T) {
	t.Parallel()
	o := render(t, valuesSets()["Everything"])
	for key, p := range all[networking.NetworkPolicy](o) {
		require.Equal(t, []networking.PolicyType{"Ingress", "Egress"}, p.Spec.PolicyTypes, key)
		ports, blocks := map[int32]bool{}, map[string][]string{}
		for _, rule := range p.Spec.Egress {
			for _, port := range rule.Ports {
				ports[int32(port.Port.IntValue())] = true
			}
			for _, to := range rule.To {
				if to.IPBlock != nil {
					blocks[to.IPBlock.CIDR] = to.IPBlock.Except
				}
			}
		}
		for _, port := range []int32{53, 6432, 4318, 3128} {
			require.True(t, ports[port], "%s: the way to port %d", key, port)
		}
		for _, closed := range []string{"10.0.0.0/8", "169.254.0.0/16", "127.0.0.0/8"} {
			require.Contains(t, blocks["0.0.0.0/0"], closed, key)
		}
		require.Contains(t, blocks["::/0"], "fc00::/7", key)
		require.Contains(t, blocks, "10.20.0.0/16", key)
		require.Contains(t, blocks, "fd00::/64", key)
		require.Contains(t, blocks, "10.1.2.3/32", key)
	}
	require.Len(t, get[networking.NetworkPolicy](t, o, "NetworkPolicy/rubato-scheduler-worker").Spec.Ingress, 1, "nobody calls a worker but who scrapes it")
	require.Len(t, get[networking.NetworkPolicy](t, o, "NetworkPolicy/rubato-api").Spec.Ingress, 2)
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"UnknownValue":     "workers: {replicas: 3}",
		"UnknownSetting":   `config: {RUBATO_SLOT: "12"}`,
		"SecretInTheOpen":  `config: {RUBATO_SECRET_KEYS: "k1:abc"}`,
		"SetOtherwise":     `config: {RUBATO_SHUTDOWN_GRACE: 90s}`,
		"NumberForText":    "config: {RUBATO_SLOTS: 256}",
		"NoWorker":         "worker: {replicas: 0}",
		"NoDrain":          "api: {drainSeconds: 0}",
		"NoDatabase":       `secret: {databaseURL: ""}`,
		"NoPrefix":         "egressAllow: [10.0.0.1]",
		"BrokenMatcher":    `autoscaling: {matchers: 'namespace="x"} or up{'}`,
		"BudgetOfNothing":  "podDisruptionBudget: {maxUnavailable: 0}",
		"IngressUnnamed":   "ingress: {enabled: true}",
		"ScrapeEveryThing": "monitoring: {interval: often}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := texts(values)
			require.Error(t, err)
		})
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// The schema is JSON without duplicate keys and accepts the documented values of values.yaml.
func TestDefaultValuesFitTheSchema(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, "deploy/helm/rubato/values.schema.json")), &schema))
	var values map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(readFile(t, "deploy/helm/rubato/values.yaml")), &values))
	known := slices.DeleteFunc(slices.Collect(maps.Keys(schema.Properties)), func(name string) bool { return name == "global" })
	require.ElementsMatch(t, slices.Collect(maps.Keys(values)), known)
}
