{{/* The metadata of a namespaced object with a name, as in (list . "ray-webhook"); further labels may follow. */}}
{{- define "ray-webhook.metadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 | quote }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels: {{- include "ray-webhook.labels" . | nindent 4 }}
{{- end }}

{{/* The metadata of a cluster-scoped object with a name. */}}
{{- define "ray-webhook.clusterMetadata" -}}
metadata:
  name: {{ index . 1 | quote }}
  labels: {{- include "ray-webhook.labels" . | nindent 4 }}
{{- end }}

{{/* Grant a ClusterRole and a Role of one name to a service account: (list . name account). */}}
{{- define "ray-webhook.grant" -}}
{{- include "ray-webhook.grantInCluster" . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
{{ include "ray-webhook.metadata" . }}
{{ include "ray-webhook.granted" (concat (list "Role") .) }}
{{- end }}

{{- define "ray-webhook.grantInCluster" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
{{ include "ray-webhook.clusterMetadata" . }}
{{ include "ray-webhook.granted" (concat (list "ClusterRole") .) }}
{{- end }}

{{- define "ray-webhook.granted" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 0 }}
  name: {{ index . 2 }}
subjects:
  - kind: ServiceAccount
    name: {{ index . 3 | quote }}
    namespace: {{ (index . 1).Release.Namespace | quote }}
{{- end }}

{{/* The metadata of a pod template: (list . "controller"). A change of the settings replaces the pods. */}}
{{- define "ray-webhook.podMetadata" -}}
{{- $root := index . 0 -}}
metadata:
  labels: {{- include "ray-webhook.selector" . | nindent 4 }}
    {{- with merge (dict) ($root.Values.podLabels | default dict) ($root.Values.commonLabels | default dict) }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/settings: {{ include "ray-webhook.settings" $root | sha256sum }}
    {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{/* The fields that all pods have in common: (list . nodeSelector). */}}
{{- define "ray-webhook.pod" -}}
{{- $values := (index . 0).Values -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with concat ($values.global.imagePullSecrets | default list) $values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
securityContext: {{- toYaml $values.podSecurityContext | nindent 2 }}
{{- with index . 1 }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The fields that all containers have in common. */}}
{{- define "ray-webhook.container" -}}
image: {{ include "ray-webhook.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "ray-webhook.probes" -}}
startupProbe:
  httpGet:
    path: /livez
    port: admin
  {{- toYaml .Values.probes.startup | nindent 2 }}
livenessProbe:
  httpGet:
    path: /livez
    port: admin
  {{- toYaml .Values.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet:
    path: /readyz
    port: admin
  {{- toYaml .Values.probes.readiness | nindent 2 }}
{{- end }}
