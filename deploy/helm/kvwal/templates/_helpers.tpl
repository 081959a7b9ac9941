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

{{/* The node's file: keys of the chart before the tables of the values' text, the chart's own table behind them. */}}
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
