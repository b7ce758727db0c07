package helm

import (
	"testing"

	"github.com/stretchr/testify/require"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
)

// workload sets every option of a workload. It is given to one of the four workloads at a time, so
// that a leak into another one shows.
const workload = `
  podLabels: {team: shop}
  extraEnv:
    - {name: SSL_CERT_DIR, value: /etc/ca}
    - {name: RUBATO_USER_AGENT_CONTACT, valueFrom: {configMapKeyRef: {name: contact, key: url}}}
  extraEnvFrom: [{secretRef: {name: collector}}]
  extraVolumes: [{name: ca, configMap: {name: ca-bundle}}]
  extraVolumeMounts: [{name: ca, mountPath: /etc/ca, readOnly: true}]
  extraInitContainers: [{name: sql-proxy, image: "sql-proxy:2.14", restartPolicy: Always}]
  extraContainers: [{name: log-shipper, image: "shipper:1"}]
`

func TestEveryWorkloadTakesVolumesVariablesAndSidecars(t *testing.T) {
	t.Parallel()
	components := map[string]string{"api": "api", "worker": "scheduler-worker", "planner": "planner", "migrate": "migrate"}
	for values, component := range components {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			pods := programs(render(t, values+":"+workload))
			require.Len(t, pods, len(components))
			for name, pod := range pods {
				if name != component {
					require.Len(t, pod.Spec.Containers, 1, name)
					require.Empty(t, pod.Spec.Volumes, name)
					require.NotContains(t, environment(pod.Spec.Containers[0]), "SSL_CERT_DIR", name)
					require.NotContains(t, pod.Labels, "team", name)
				}
			}
			takesAll(t, pods[component])
		})
	}
}

func takesAll(t *testing.T, pod core.PodTemplateSpec) {
	t.Helper()
	require.Equal(t, "shop", pod.Labels["team"])
	require.Equal(t, "ca-bundle", pod.Spec.Volumes[0].ConfigMap.Name)
	require.Equal(t, core.ContainerRestartPolicyAlways, *pod.Spec.InitContainers[0].RestartPolicy)
	require.Len(t, pod.Spec.Containers, 2)
	require.Equal(t, "shipper:1", pod.Spec.Containers[1].Image)

	program := pod.Spec.Containers[0]
	require.Equal(t, "/etc/ca", environment(program)["SSL_CERT_DIR"].Value)
	require.Equal(t, "contact", environment(program)["RUBATO_USER_AGENT_CONTACT"].ValueFrom.ConfigMapKeyRef.Name)
	require.Contains(t, environment(program), "DATABASE_URL", "what the chart sets is still there")
	require.Equal(t, "collector", program.EnvFrom[0].SecretRef.Name)
	require.Equal(t, "/etc/ca", program.VolumeMounts[0].MountPath)
	require.True(t, program.VolumeMounts[0].ReadOnly)
}

// TestSecretsMayBeFiles mounts the database URL and the keys as files into each program that needs
// them.
func TestSecretsMayBeFiles(t *testing.T) {
	t.Parallel()
	o := render(t, `
secret: {databaseURL: ""}
config:
  DATABASE_URL_FILE: /run/rubato/database-url
  RUBATO_SECRET_KEYS_FILE: /run/rubato/keys
  RUBATO_OPENAI_API_KEY_FILE: /run/rubato/openai
  RUBATO_BOOTSTRAP_API_KEY_FILE: /run/rubato/bootstrap
`)
	files := func(c core.Container) map[string]bool {
		list := map[string]bool{}
		for name := range environment(c) {
			list[name] = true
		}
		return list
	}
	for name, pod := range programs(o) {
		env := files(pod.Spec.Containers[0])
		require.False(t, env["DATABASE_URL"], name)
		require.True(t, env["DATABASE_URL_FILE"], name)
		require.Equal(t, name != "migrate", env["RUBATO_SECRET_KEYS_FILE"], name)
		require.Equal(t, name == "planner", env["RUBATO_OPENAI_API_KEY_FILE"], name)
		require.Equal(t, name == "api", env["RUBATO_BOOTSTRAP_API_KEY_FILE"], name)
	}
	require.Len(t, all[batch.Job](o), 1)
}

func TestExtrasThatWouldBreakAPodAreRefused(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"LabelOfTheSelector": "worker: {podLabels: {app.kubernetes.io/component: api}}",
		"VariableUnnamed":    "api: {extraEnv: [{value: x}]}",
		"MountNowhere":       "planner: {extraVolumeMounts: [{name: ca}]}",
		"SidecarOfNothing":   "migrate: {extraContainers: [{name: proxy}]}",
		"SecretInConfig":     `config: {DATABASE_URL: "postgres://u:p@db/rubato"}`,
		"NoDatabaseAnywhere": `secret: {databaseURL: ""}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := texts(values)
			require.Error(t, err)
		})
	}
}
