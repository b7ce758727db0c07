{{- define "rubato.name" -}}
{{- if contains "rubato" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-rubato" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "rubato.account" -}}
{{ .Values.serviceAccount.name | default (include "rubato.name" .) }}
{{- end }}

{{- define "rubato.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}

{{/* Labels that select the pods of one program. The argument has root and component. */}}
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

{{/* Pods run without root, with a read-only image and without privilege escalation. */}}
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

{{/* One environment variable from the Secret; none if the key is empty. */}}
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

{{/* The migration job gets only the settings of the database, including those that name files. */}}
{{- define "rubato.migrateEnv" -}}
{{- include "rubato.databaseEnv" . }}
{{- range $name := list "DATABASE_URL_FILE" "RUBATO_DATABASE_DIRECT_URL_FILE" }}
{{- with index $.Values.config $name }}
- name: {{ $name }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* "yes" if a program gets a setting of config, otherwise empty. Settings of models are for the
planner only, and the bootstrap key is for the API server only. */}}
{{- define "rubato.takes" -}}
{{- $planners := or (hasPrefix "RUBATO_PLANNER_" .name) (hasPrefix "RUBATO_OPENAI_" .name) }}
{{- $apis := hasPrefix "RUBATO_BOOTSTRAP_" .name }}
{{- if and (or (not $planners) (eq .component "planner")) (or (not $apis) (eq .component "api")) }}yes{{ end }}
{{- end }}

{{/* Additions to the container from the values of a workload. */}}
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

{{/* Additions to the pod from the values of a workload, except sidecars. */}}
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

{{/* The environment of every daemon. */}}
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

{{/* Probes use the admin listener, because it keeps serving during a drain. Without a database, a
program is not ready but still live, so that Kubernetes does not restart it. */}}
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

{{/* Metadata of the pods of every daemon. The argument has root, component and values. */}}
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
# A Service named rubato would add RUBATO_ variables that the programs refuse.
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
