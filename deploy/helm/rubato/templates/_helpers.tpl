{{- define "rubato.name" -}}
{{- if contains "rubato" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-rubato" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "rubato.account" -}}
{{ .Values.serviceAccount.name | default (include "rubato.name" .) }}
{{- end }}

{{- define "rubato.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}

{{/* What tells the pods of one program. The argument has the root and the component. */}}
{{- define "rubato.selector" -}}
app.kubernetes.io/name: rubato
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "rubato.labels" -}}
{{ include "rubato.selector" . }}
app.kubernetes.io/part-of: rubato
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Nothing in a pod can become root, write its image's files or ask for more rights. */}}
{{- define "rubato.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rubato.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* One variable from the Secret; none where the key is empty. */}}
{{- define "rubato.fromSecret" -}}
{{- if .key }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.secret.name }}, key: {{ .key }}}
{{- end }}
{{- end }}

{{- define "rubato.databaseEnv" -}}
{{- $s := .Values.secret }}
{{- if not (or $s.databaseURL .Values.config.DATABASE_URL_FILE) }}
{{- fail "set secret.databaseURL, or DATABASE_URL_FILE in config: the programs need a database" }}
{{- end }}
{{- include "rubato.fromSecret" (dict "root" . "name" "DATABASE_URL" "key" $s.databaseURL) }}
{{- include "rubato.fromSecret" (dict "root" . "name" "RUBATO_DATABASE_DIRECT_URL" "key" $s.databaseDirectURL) }}
{{- end }}

{{/* The migration job has the settings of the database alone, and of config those that name files with them. */}}
{{- define "rubato.migrateEnv" -}}
{{- include "rubato.databaseEnv" . }}
{{- range $name := list "DATABASE_URL_FILE" "RUBATO_DATABASE_DIRECT_URL_FILE" }}
{{- with index $.Values.config $name }}
- name: {{ $name }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether a program gets a setting of config: "yes" or nothing. A model's key is for the planner, the first key of the API for the API
server. */}}
{{- define "rubato.takes" -}}
{{- $planners := or (hasPrefix "RUBATO_PLANNER_" .name) (hasPrefix "RUBATO_OPENAI_" .name) }}
{{- $apis := hasPrefix "RUBATO_BOOTSTRAP_" .name }}
{{- if and (or (not $planners) (eq .component "planner")) (or (not $apis) (eq .component "api")) }}yes{{ end }}
{{- end }}

{{/* What a workload's values add to its container. */}}
{{- define "rubato.containerExtras" -}}
{{- with .extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What a workload's values add to its pod, beside further containers. */}}
{{- define "rubato.podExtras" -}}
{{- with .extraInitContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The environment that every daemon has. */}}
{{- define "rubato.daemonEnv" -}}
{{- include "rubato.databaseEnv" .root }}
{{- include "rubato.fromSecret" (dict "root" .root "name" "RUBATO_SECRET_KEYS" "key" .root.Values.secret.secretKeys) }}
{{- range $name, $key := .root.Values.secret.others }}
{{- include "rubato.fromSecret" (dict "root" $.root "name" $name "key" $key) }}
{{- end }}
- name: RUBATO_ADMIN_LISTEN
  value: ":9090"
- name: RUBATO_LOG_FORMAT
  value: json
- name: OTEL_SERVICE_NAME
  value: {{ printf "rubato-%s" .component }}
{{- with .root.Values.egressAllow }}
- name: RUBATO_EGRESS_ALLOW
  value: {{ join "," . | quote }}
{{- end }}
{{- range $name, $value := .root.Values.config }}
{{- if include "rubato.takes" (dict "name" $name "component" $.component) }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Health is asked of the admin listener, which goes on while a program drains. A database that is away makes a program not ready, and
restarts nothing. */}}
{{- define "rubato.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}

{{/* What the pods of every daemon have in common. The argument has the root, the component and its values. */}}
{{- define "rubato.podMeta" -}}
metadata:
  labels:
    {{- include "rubato.labels" . | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    rubato/secret-revision: {{ .root.Values.secret.revision | quote }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "rubato.podCommon" -}}
serviceAccountName: {{ include "rubato.account" .root }}
automountServiceAccountToken: false
# A Service named rubato would put variables into the environment that the programs refuse.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "rubato.podSecurity" .root }}
{{- include "rubato.podExtras" .values }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "rubato.selector" . | nindent 8 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
