{{/* Every object bears this name; those of the cluster would meet those of another release otherwise. */}}
{{- define "ray-webhook.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* The process that writes to the cluster. Its pods must not be selected as those that answer reviews. */}}
{{- define "ray-webhook.controller" -}}
{{ include "ray-webhook.name" . }}-controller
{{- end }}

{{- define "ray-webhook.controllerSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ray-webhook.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ray-webhook.labels" -}}
{{ include "ray-webhook.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "ray-webhook.settings" -}}
{{- $name := include "ray-webhook.name" . -}}
{{- range $key, $value := .Values.settings }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- if .Values.resizeCheck.enabled }}
RAY_WEBHOOK_RESIZE__BEYOND: {{ .Values.resizeCheck.beyond | quote }}
{{- end }}
{{- if .Values.schedulingGroups.publish }}
RAY_WEBHOOK_SCHEDULING__PUBLISH: "true"
{{- end }}
{{- if eq .Values.certificates.source "self-signed" }}
RAY_WEBHOOK_TLS__SOURCE: self-signed
RAY_WEBHOOK_TLS__SELF_SIGNED__NAMESPACE: {{ .Release.Namespace }}
RAY_WEBHOOK_TLS__SELF_SIGNED__SECRET: {{ $name }}-tls
RAY_WEBHOOK_TLS__SELF_SIGNED__SERVICE: {{ $name }}
RAY_WEBHOOK_TLS__SELF_SIGNED__MUTATING: {{ $name }}
RAY_WEBHOOK_TLS__SELF_SIGNED__VALIDATING: {{ $name }}
{{- else }}
RAY_WEBHOOK_TLS__SOURCE: files
{{- end }}
{{- end }}

{{- define "ray-webhook.namespaces" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ concat (list .Release.Namespace "kube-system") .Values.ignoredNamespaces | toJson }}
    - key: admission.ray.io/ignore
      operator: NotIn
      values: ["true"]
{{- end }}

{{/* What the configurations have in their metadata. */}}
{{- define "ray-webhook.registration" -}}
metadata:
  name: {{ include "ray-webhook.name" . }}
  labels: {{- include "ray-webhook.labels" . | nindent 4 }}
  {{- if eq .Values.certificates.source "cert-manager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "ray-webhook.name" . }}-tls
  {{- end }}
{{- end }}
