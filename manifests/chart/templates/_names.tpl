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

{{/* What it does, comma-separated; empty where there is no such process. */}}
{{- define "ray-webhook.controlled" -}}
{{- $parts := list -}}
{{- if .Values.controller.events }}{{ $parts = append $parts "events" }}{{ end -}}
{{- if .Values.schedulingGroups.publish }}{{ $parts = append $parts "pod-groups" }}{{ end -}}
{{- if .Values.computeDomains.enabled }}{{ $parts = append $parts "compute-domains" }}{{ end -}}
{{- if .Values.headlessServices.create }}{{ $parts = append $parts "services" }}{{ end -}}
{{- if .Values.repair.enabled }}{{ $parts = append $parts "repair" }}{{ end -}}
{{ join "," $parts }}
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
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
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
{{- merge (dict "apiVersion" "config.ray-webhook.dev/v1alpha1" "kind" "Configuration") .Values.config | toYaml }}
{{- end }}

{{/* What other values set. These variables override the file. */}}
{{- define "ray-webhook.components" -}}
RAY_WEBHOOK_CONFIG: /etc/ray-webhook/settings/settings.yaml
{{- if ne (int .Values.webhook.port) 10250 }}
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
{{- if ne (include "ray-webhook.controlled" .) "events" }}
RAY_WEBHOOK_INSTALLATION__COMPONENTS: {{ include "ray-webhook.controlled" . | quote }}
{{- end }}
{{- with .Values.nodeLabels }}
RAY_WEBHOOK_TOPOLOGY__NODE_LABELS: {{ toJson . | quote }}
{{- end }}
{{- end }}

{{/* These variables, as entries of a container's `env`. */}}
{{- define "ray-webhook.env" -}}
{{- range $name, $value := include "ray-webhook.components" . | fromYaml }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* Not empty where the webhook configurations fail closed in the end. */}}
{{- define "ray-webhook.closing" -}}
{{- if or (eq .Values.mutating.failurePolicy "Fail") (eq .Values.validating.failurePolicy "Fail") }}yes{{ end }}
{{- end }}

{{- define "ray-webhook.pullSecrets" -}}
{{- concat (.Values.global.imagePullSecrets | default list) .Values.imagePullSecrets | toYaml }}
{{- end }}

{{- define "ray-webhook.image" -}}
{{- $image := .Values.image -}}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}
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
    {{- with .Values.namespaceSelector.matchExpressions }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if .Values.optIn.enabled }}
    - key: {{ .Values.optIn.label }}
      operator: In
      values: ["true"]
    {{- end }}
  {{- with .Values.namespaceSelector.matchLabels }}
  matchLabels: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* What the configurations have in their metadata: of `root` and the values `of` this kind. */}}
{{- define "ray-webhook.registration" -}}
{{- $name := include "ray-webhook.name" .root -}}
metadata:
  name: {{ $name }}
  labels: {{- include "ray-webhook.labels" .root | nindent 4 }}
  annotations:
    # The webhook sets it on the entries below once the API server reaches it: docs/contributing/decisions/0020-nothing-fails-closed-at-first.md
    admission.ray.io/failure-policy: {{ .of.failurePolicy }}
    argocd.argoproj.io/sync-wave: "1"
    {{- if eq .root.Values.certificates.source "cert-manager" }}
    cert-manager.io/inject-ca-from: {{ .root.Release.Namespace }}/{{ $name }}-tls
    {{- end }}
    {{- with .of.annotations }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{/*
Ignore, unless the entry `entry` of the configuration of this kind is Fail in the cluster, and still
asked to be: an upgrade does not open what the webhook closed.
*/}}
{{- define "ray-webhook.failurePolicy" -}}
{{- $policy := "Ignore" -}}
{{- if eq .of.failurePolicy "Fail" -}}
{{- $live := lookup "admissionregistration.k8s.io/v1" .kind "" (include "ray-webhook.name" .root) -}}
{{- range ($live.webhooks | default list) -}}
{{- if eq .name $.entry }}{{ $policy = .failurePolicy }}{{ end -}}
{{- end -}}
{{- end -}}
{{ $policy }}
{{- end }}
