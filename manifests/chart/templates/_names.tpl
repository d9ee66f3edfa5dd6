{{/*
The name of every object. It contains the release, as some objects are cluster-scoped. A Service is called so, and YAML reads
words such as `on` as something else.
*/}}
{{- define "ray-webhook.name" -}}
{{- $chart := .Values.nameOverride | default (kebabcase .Chart.Name) -}}
{{- $default := contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart) -}}
{{- $name := .Values.fullnameOverride | default $default | trunc 52 | trimSuffix "-" -}}
{{- if not (and (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) (kindIs "string" (printf "name: %s" $name | fromYaml).name)) }}
{{- fail (printf "objects would be called %q: set fullnameOverride to a name of small letters, digits and dashes that begins with a letter" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{/* The components of the controller, comma-separated; empty if it is not installed. */}}
{{- define "ray-webhook.components" -}}
{{- $parts := list -}}
{{- if .Values.controller.events }}{{ $parts = append $parts "events" }}{{ end -}}
{{- if .Values.schedulingGroups.publish }}{{ $parts = append $parts "pod-groups" }}{{ end -}}
{{- if .Values.computeDomains.enabled }}{{ $parts = append $parts "compute-domains" }}{{ end -}}
{{- if .Values.repair.enabled }}{{ $parts = append $parts "repair" }}{{ end -}}
{{ join "," $parts }}
{{- end }}

{{/* The labels of the installation. */}}
{{- define "ray-webhook.instance" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels that select the pods of a component, as in (list . "controller"); "webhook" answers reviews. */}}
{{- define "ray-webhook.selector" -}}
{{ include "ray-webhook.instance" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The labels of an object with a name, as in (list . "ray-webhook-controller"), which contains its component; further labels may follow. */}}
{{- define "ray-webhook.labels" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 | trimPrefix (include "ray-webhook.name" $root) | trimPrefix "-" | splitList "-" | first -}}
{{ include "ray-webhook.selector" (list $root (ternary $component "webhook" (has $component (list "controller" "test")))) }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with merge (dict) (kindIs "map" (last .) | ternary (last .) dict) ($root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The service account of the process that answers reviews. */}}
{{- define "ray-webhook.account" -}}
{{ .Values.serviceAccount.name | default (include "ray-webhook.name" .) }}
{{- end }}

{{/* The one file of settings. */}}
{{- define "ray-webhook.settings" -}}
{{- merge (dict "apiVersion" "config.ray-webhook.dev/v1alpha1" "kind" "Configuration") .Values.config | toYaml }}
{{- end }}

{{/* Variables for other values. They override the file of settings. */}}
{{- define "ray-webhook.variables" -}}
{{- if eq (int .Values.webhook.port) (int .Values.webhook.adminPort) }}
{{- fail (printf "webhook.port and webhook.adminPort are both %v: set one of them to another port" .Values.webhook.port) }}
{{- end }}
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
RAY_WEBHOOK_TLS__CLIENT_CA: {{ printf "/etc/ray-webhook/clients/%s" .key | quote }}
{{- end }}
{{- end }}
{{- if ne (include "ray-webhook.components" .) "events" }}
RAY_WEBHOOK_INSTALLATION__COMPONENTS: {{ include "ray-webhook.components" . | quote }}
{{- end }}
{{- if not .Values.quotas.enabled }}
RAY_WEBHOOK_VALIDATION__QUOTAS: "false"
{{- end }}
{{- with .Values.nodeLabels }}
RAY_WEBHOOK_TOPOLOGY__NODE_LABELS: {{ toJson . | quote }}
{{- end }}
{{- end }}

{{/* These variables, as entries of a container's `env`. */}}
{{- define "ray-webhook.env" -}}
{{- range $name, $value := include "ray-webhook.variables" . | fromYaml }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/*
Whether a Ray pod cannot run without the webhook, in CEL: a worker without a replica index, of several hosts, or with TPUs.
Conditions are evaluated again on the patched pod, which has an index: the annotation keeps it with the entry that assigned it.
*/}}
{{- define "ray-webhook.needed" -}}
object.metadata.?labels[?"ray.io/node-type"].orValue("") == "worker"
&& (!object.metadata.?labels[?"ray.io/worker-group-replica-index"].hasValue()
|| object.metadata.?labels[?"ray.io/replica-host-index"].hasValue()
|| object.metadata.?annotations[?"admission.ray.io/holder"].hasValue()
|| [object.spec.?containers, object.spec.?initContainers].exists(some, some.hasValue() && some.value() != null
&& some.value().exists(c, [c.?resources.?requests, c.?resources.?limits].exists(r, r.hasValue() && r.value() != null
&& "google.com/tpu" in r.value()))))
{{- end }}

{{- define "ray-webhook.image" -}}
{{- $image := .Values.image -}}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ . }}/{{ $image.repository }}
{{- else }}{{ fail "set image.registry to the registry that has the image of ray-webhook, such as registry.example.com/team" }}{{ end }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "ray-webhook.namespaces" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ concat (list .Release.Namespace "kube-system" "kube-public" "kube-node-lease") .Values.ignoredNamespaces | toJson }}
    - key: admission.ray.io/ignore
      operator: NotIn
      values: ["true"]
    {{- with .Values.namespaceSelector.matchExpressions }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if .Values.optIn.enabled }}
    - key: {{ .Values.optIn.label | quote }}
      operator: In
      values: ["true"]
    {{- end }}
  {{- with .Values.namespaceSelector.matchLabels }}
  matchLabels: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The metadata of a webhook configuration: (list . values), with the values of its kind. */}}
{{- define "ray-webhook.registration" -}}
{{- $root := index . 0 -}}
{{- $name := include "ray-webhook.name" $root -}}
metadata:
  name: {{ $name }}
  labels: {{- include "ray-webhook.labels" (list $root $name) | nindent 4 }}
  {{- $annotations := dict "argocd.argoproj.io/sync-wave" "1" }}
  {{- if eq $root.Values.certificates.source "cert-manager" }}
  {{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/%s-tls" $root.Release.Namespace $name) }}
  {{- end }}
  annotations: {{- merge (dict) (index . 1).annotations $annotations | toYaml | nindent 4 }}
{{- end }}

{{/* The clientConfig of a webhook: (list . path). */}}
{{- define "ray-webhook.client" -}}
{{- $root := index . 0 -}}
service:
  name: {{ include "ray-webhook.name" $root }}
  namespace: {{ $root.Release.Namespace | quote }}
  path: {{ index . 1 }}
  port: 443
{{- if eq $root.Values.certificates.source "secret" }}
caBundle: {{ $root.Values.certificates.caBundle | b64enc }}
{{- end }}
{{- end }}
