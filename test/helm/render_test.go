package helm

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	chart = root + "/deploy/helm/rubato"
)

// TestMain silences the log about the chart's symbolic links, because they are intended.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// objects are the rendered objects of a chart, by kind and name.
type objects map[string]any

// get returns the one object of a kind with a name.
func get[T any](t *testing.T, o objects, key string) *T {
	t.Helper()
	require.Contains(t, o, key)
	object, is := o[key].(*T)
	require.True(t, is, "%s is a %T", key, o[key])
	return object
}

// all returns the objects of a type by key.
func all[T any](o objects) map[string]*T {
	list := map[string]*T{}
	for key, object := range o {
		if one, is := object.(*T); is {
			list[key] = one
		}
	}
	return list
}

// makers returns a constructor for each type of object that the chart may render.
func makers() map[string]func() any {
	return map[string]func() any{
		"apps/v1/Deployment":                      func() any { return &apps.Deployment{} },
		"batch/v1/Job":                            func() any { return &batch.Job{} },
		"v1/ConfigMap":                            func() any { return &core.ConfigMap{} },
		"v1/Service":                              func() any { return &core.Service{} },
		"v1/ServiceAccount":                       func() any { return &core.ServiceAccount{} },
		"policy/v1/PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
		"networking.k8s.io/v1/NetworkPolicy":      func() any { return &networking.NetworkPolicy{} },
		"networking.k8s.io/v1/Ingress":            func() any { return &networking.Ingress{} },
		"monitoring.coreos.com/v1/ServiceMonitor": func() any { return &monitoring.ServiceMonitor{} },
		"monitoring.coreos.com/v1/PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
		"keda.sh/v1alpha1/ScaledObject":           func() any { return &scaledObject{} },
	}
}

// valuesSets are values for the chart as users write them.
func valuesSets() map[string]string {
	return map[string]string{
		"Defaults": "{}",
		"Minimal": `
planner: {enabled: false}
migrate: {enabled: false}
podDisruptionBudget: {enabled: false}
api: {replicas: 1}
worker: {replicas: 1, graceSeconds: 0}
`,
		"Everything": `
image: {repository: registry.example/rubato, tag: "1.2.3", pullSecrets: [{name: pull}]}
secret: {name: own, databaseURL: url, databaseDirectURL: direct, bootstrapKey: admin, secretKeys: keys, openaiKey: openai, revision: "7", others: {RUBATO_EGRESS_PROXY: proxy}}
config: {RUBATO_SLOTS: "256", RUBATO_PLANNER_MODEL: gpt-4.1-mini, OTEL_EXPORTER_OTLP_ENDPOINT: "http://tempo.monitoring:4318", OTEL_BSP_MAX_QUEUE_SIZE: "4096"}
egressAllow: [10.20.0.0/16, "fd00::/64"]
api: {replicas: 3, service: {type: LoadBalancer, port: 8443, annotations: {a: b}}, nodeSelector: {disk: ssd}, podAnnotations: {x: "y"}}
worker: {graceSeconds: 120, tolerations: [{key: spot, operator: Exists}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]}}}}
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 30, matchers: 'namespace="rubato"'}
networkPolicy:
  enabled: true
  apiFrom: [{namespaceSelector: {matchLabels: {name: ingress}}}]
  adminFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  database: {to: [{ipBlock: {cidr: 10.1.2.3/32}}], port: 6432}
  collector: {to: [{namespaceSelector: {}}]}
  extraEgress: [{to: [{podSelector: {}}], ports: [{port: 3128}]}]
ingress: {enabled: true, className: nginx, host: rubato.example, tlsSecret: tls, annotations: {c: d}}
monitoring: {serviceMonitor: true, rules: true, dashboard: true, labels: {release: prometheus}}
serviceAccount: {name: runner, annotations: {e: f}}
`,
	}
}

// render returns the objects of the chart with some values. Every object is decoded strictly: a
// field that its type does not have fails the test.
func render(t *testing.T, values string) objects {
	t.Helper()
	texts, err := texts(values)
	require.NoError(t, err)
	made := objects{}
	for name, text := range texts {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq("\n"+text, "\n---") {
			if strings.TrimSpace(withoutComments(document)) == "" {
				continue
			}
			var head struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
			require.NoError(t, yaml.Unmarshal([]byte(document), &head), "%s:\n%s", name, document)
			maker := makers()[head.APIVersion+"/"+head.Kind]
			require.NotNil(t, maker, "%s makes a %s/%s, which no test knows", name, head.APIVersion, head.Kind)
			object := maker()
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), object), "%s:\n%s", name, document)
			key := head.Kind + "/" + head.Metadata.Name
			require.NotContains(t, made, key, "%s makes it once more", name)
			made[key] = object
		}
	}
	require.NotEmpty(t, made)
	return made
}

// texts renders the chart's templates after the schema has checked the values.
func texts(values string) (map[string]string, error) {
	c, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: "rubato", Namespace: "rubato", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, given, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}

func withoutComments(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// scaledObject is the part of KEDA's ScaledObject that the chart may use; a field outside of it
// fails the test. KEDA's own types would bring its operator with them.
type scaledObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		PollingInterval int32 `json:"pollingInterval"`
		Fallback        struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string            `json:"type"`
			Name       string            `json:"name"`
			MetricType string            `json:"metricType"`
			Metadata   map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}
