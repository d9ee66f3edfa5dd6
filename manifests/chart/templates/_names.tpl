{{/* Every object bears this name; those of the cluster would meet those of another release otherwise. */}}
{{- define "ray-webhook.name" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $chart .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $chart | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* The process that writes to the cluster. Its pods must not be selected as those that answer reviews. */}}
{{- define "ray-webhook.controller" -}}
{{ include "ray-webhook.name" . }}-controller
{{- end }}

{{/* Not empty where there is such a process. */}}
{{- define "ray-webhook.controlled" -}}
{{- if or .Values.controller.events .Values.schedulingGroups.publish .Values.repair.enabled }}yes{{ end }}
{{- end }}

{{- define "ray-webhook.controllerSelector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The page. */}}
{{- define "ray-webhook.dashboard" -}}
{{ include "ray-webhook.name" . }}-dashboard
{{- end }}

{{- define "ray-webhook.dashboardSelector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}-dashboard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ray-webhook.testSelector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ray-webhook.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ray-webhook.labels" -}}
{{ include "ray-webhook.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The account of the process that answers reviews. */}}
{{- define "ray-webhook.account" -}}
{{ .Values.serviceAccount.name | default (include "ray-webhook.name" .) }}
{{- end }}

{{/* The one file of settings. */}}
{{- define "ray-webhook.settings" -}}
{{- merge (dict "apiVersion" "config.admission.ray.io/v1alpha1" "kind" "Settings") .Values.config | toYaml }}
{{- end }}

{{/* What other values set. These variables override the file. */}}
{{- define "ray-webhook.components" -}}
RAY_WEBHOOK_FILE: /etc/ray-webhook/settings/settings.yaml
{{- if ne (int .Values.webhook.port) 9443 }}
RAY_WEBHOOK_SERVING__PORT: {{ .Values.webhook.port | quote }}
{{- end }}
{{- if ne (int .Values.webhook.adminPort) 8080 }}
RAY_WEBHOOK_LISTEN__ADMIN_PORT: {{ .Values.webhook.adminPort | quote }}
{{- end }}
{{- with .Values.webhook.clientAuthorities }}
{{- if and .configMap .secret }}
{{- fail "webhook.clientAuthorities: name a ConfigMap or a Secret, not both" }}
{{- end }}
{{- if or .configMap .secret }}
RAY_WEBHOOK_TLS__CLIENT_CA: /etc/ray-webhook/clients/{{ .key }}
{{- end }}
{{- end }}
{{- if .Values.resizeCheck.enabled }}
RAY_WEBHOOK_RESIZE__BEYOND: {{ .Values.resizeCheck.beyond | quote }}
{{- end }}
{{- if .Values.schedulingGroups.publish }}
RAY_WEBHOOK_SCHEDULING__PUBLISH: "true"
{{- end }}
{{- if .Values.repair.enabled }}
RAY_WEBHOOK_REPAIR__ENABLED: "true"
{{- end }}
{{- if not .Values.controller.events }}
RAY_WEBHOOK_CONTROLLER__EVENTS: "false"
{{- end }}
{{- end }}

{{/* No registry has an image of this name by itself, so it has to be given one. */}}
{{- define "ray-webhook.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
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
    {{- if .Values.optIn.enabled }}
    - key: {{ .Values.optIn.label }}
      operator: In
      values: ["true"]
    {{- end }}
{{- end }}

{{/* What the configurations have in their metadata. */}}
{{- define "ray-webhook.registration" -}}
metadata:
  name: {{ include "ray-webhook.name" . }}
  labels: {{- include "ray-webhook.labels" . | nindent 4 }}
  annotations:
    argocd.argoproj.io/sync-wave: "1"
    {{- if eq .Values.certificates.source "cert-manager" }}
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "ray-webhook.name" . }}-tls
    {{- end }}
{{- end }}
