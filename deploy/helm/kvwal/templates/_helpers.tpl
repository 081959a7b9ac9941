{{/* The name that everything of a release begins with; room is left for "-members-99". */}}
{{- define "kvwal.name" -}}
{{- if contains "kvwal" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-kvwal" (.Release.Name | trunc 34 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* The headless service, by which each pod has a name of its own. */}}
{{- define "kvwal.members" -}}
{{ include "kvwal.name" . }}-members
{{- end }}

{{- define "kvwal.selector" -}}
app.kubernetes.io/name: kvwal
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kvwal.labels" -}}
{{ include "kvwal.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "kvwal.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Every member's address: what each node is told with --members. */}}
{{- define "kvwal.addresses" -}}
{{- $name := include "kvwal.name" . -}}
{{- $members := include "kvwal.members" . -}}
{{- $all := list -}}
{{- range $number := until (int .Values.replicas) -}}
{{- $all = append $all (printf "%s-%d.%s:5701" $name $number $members) -}}
{{- end -}}
{{ join "," $all }}
{{- end }}

{{/* The node's file: keys of the chart before the tables of the values' text, the chart's own table after them. */}}
{{- define "kvwal.config" -}}
{{- if .Values.token.existingSecret -}}
token_file = "/etc/kvwal-secrets/token/token"
http_token_file = "/etc/kvwal-secrets/token/http-token"
{{ end -}}
{{ .Values.config }}
{{- if .Values.tls.existingSecret }}

[tls]
certificate = "/etc/kvwal-secrets/tls/tls.crt"
key = "/etc/kvwal-secrets/tls/tls.key"
authority = "/etc/kvwal-secrets/tls/ca.crt"
{{ end }}
{{- end }}

{{/* The recorder of event logs: a name of its own, so that no service of the nodes finds it. */}}
{{- define "kvwal.recorder" -}}
{{ include "kvwal.name" . }}-recorder
{{- end }}

{{- define "kvwal.recorderSelector" -}}
app.kubernetes.io/name: kvwal-recorder
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The console: a name of its own, so that no service of the nodes finds it. */}}
{{- define "kvwal.console" -}}
{{ include "kvwal.name" . }}-console
{{- end }}

{{- define "kvwal.consoleSelector" -}}
app.kubernetes.io/name: kvwal-console
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* How the object storage is reached. */}}
{{- define "kvwal.storageEnvironment" -}}
- name: AWS_DEFAULT_REGION
  value: {{ .Values.archive.region | quote }}
{{- with .Values.archive.endpoint }}
- name: AWS_ENDPOINT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.archive.existingSecret }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.archive.existingSecret }}
      key: {{ $key }}
{{- end }}
{{- end }}
{{- end }}

{{/* The secrets of the cluster as files. */}}
{{- define "kvwal.secretMounts" -}}
{{- range $what := list "token" "tls" }}
{{- if (index $.Values $what).existingSecret }}
- name: {{ $what }}
  mountPath: /etc/kvwal-secrets/{{ $what }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "kvwal.secretVolumes" -}}
{{- range $what := list "token" "tls" }}
{{- with (index $.Values $what).existingSecret }}
- name: {{ $what }}
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end }}

{{- define "kvwal.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "kvwal.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Which machines the pods may run on. */}}
{{- define "kvwal.placement" -}}
{{- range $what := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $what }}
{{ $what }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the port http answers, of a node and of a recorder. */}}
{{- define "kvwal.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}
