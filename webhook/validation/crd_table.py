"""The fields of KubeRay's four kinds, their types and limits.

Written by `python -m tests.schema.generate` (`make schema`) from the CustomResourceDefinitions
of KubeRay 1.3.2 and 1.4.2 and 1.5.1 and 1.6.2 and 1.7.0; crd.py reads it. Do not edit.
"""

from typing import Final

# fmt: off
TABLE: Final = r"""
{"roots": {"1.3": {"v1/RayCluster": 157, "v1alpha1/RayCluster": 161, "v1/RayJob": 165,
"v1alpha1/RayJob": 167, "v1/RayService": 170, "v1alpha1/RayService": 172}, "1.4": {"v1/RayCluster":
186, "v1alpha1/RayCluster": 191, "v1/RayJob": 193, "v1alpha1/RayJob": 195, "v1/RayService": 197,
"v1alpha1/RayService": 199}, "1.5": {"v1/RayCluster": 230, "v1alpha1/RayCluster": 236, "v1/RayJob":
245, "v1alpha1/RayJob": 247, "v1/RayService": 251, "v1alpha1/RayService": 253}, "1.6":
{"v1/RayCluster": 270, "v1alpha1/RayCluster": 275, "v1/RayCronJob": 284, "v1/RayJob": 285,
"v1alpha1/RayJob": 287, "v1/RayService": 289, "v1alpha1/RayService": 291}, "1.7": {"v1/RayCluster":
325, "v1alpha1/RayCluster": 330, "v1/RayCronJob": 334, "v1/RayJob": 335, "v1alpha1/RayJob": 337,
"v1/RayService": 339, "v1alpha1/RayService": 341}}, "parts": [{"fields": {"key": "string", "name":
"string", "optional": "boolean"}, "required": ["key"], "defaulted": ["name"]}, {"fields":
{"apiVersion": "string", "fieldPath": "string"}, "required": ["fieldPath"]}, {"fields":
{"containerName": "string", "divisor": "quantity", "resource": "string"}, "required": ["resource"]},
{"fields": {"configMapKeyRef": 0, "fieldRef": 1, "resourceFieldRef": 2, "secretKeyRef": 0}},
{"fields": {"name": "string", "value": "string", "valueFrom": 3}, "required": ["name"]}, {"list":
4}, {"fields": {"name": "string", "optional": "boolean"}, "defaulted": ["name"]}, {"fields":
{"configMapRef": 6, "prefix": "string", "secretRef": 6}}, {"list": 7}, {"fields": {"name": "string",
"request": "string"}, "required": ["name"]}, {"list": 9, "keys": ["name"]}, {"map": "quantity"},
{"fields": {"claims": 10, "limits": 11, "requests": 11}}, {"fields": {"localhostProfile": "string",
"type": "string"}, "required": ["type"]}, {"list": "string"}, {"fields": {"add": 14, "drop": 14}},
{"fields": {"level": "string", "role": "string", "type": "string", "user": "string"}}, {"fields":
{"gmsaCredentialSpec": "string", "gmsaCredentialSpecName": "string", "hostProcess": "boolean",
"runAsUserName": "string"}}, {"fields": {"allowPrivilegeEscalation": "boolean", "appArmorProfile":
13, "capabilities": 15, "privileged": "boolean", "procMount": "string", "readOnlyRootFilesystem":
"boolean", "runAsGroup": "int64", "runAsNonRoot": "boolean", "runAsUser": "int64", "seLinuxOptions":
16, "seccompProfile": 13, "windowsOptions": 17}}, {"type": "string", "enum": ["Default",
"Aggressive", "Conservative"]}, {"fields": {"mountPath": "string", "mountPropagation": "string",
"name": "string", "readOnly": "boolean", "recursiveReadOnly": "string", "subPath": "string",
"subPathExpr": "string"}, "required": ["mountPath", "name"]}, {"list": 20}, {"fields": {"env": 5,
"envFrom": 8, "idleTimeoutSeconds": "int32", "image": "string", "imagePullPolicy": "string",
"resources": 12, "securityContext": 18, "upscalingMode": 19, "volumeMounts": 21}}, {"fields":
{"value": "string", "valueFrom": 3}}, {"fields": {"externalStorageNamespace": "string",
"redisAddress": "string", "redisPassword": 23, "redisUsername": 23}, "required": ["redisAddress"]},
{"map": "string"}, {"fields": {"annotations": 25, "finalizers": 14, "labels": 25, "name": "string",
"namespace": "string"}}, {"fields": {"appProtocol": "string", "name": "string", "nodePort": "int32",
"port": "int32", "protocol": "string", "targetPort": "int-or-string"}, "required": ["port"],
"defaulted": ["protocol"]}, {"list": 27, "keys": ["port", "protocol"]}, {"fields":
{"timeoutSeconds": "int32"}}, {"fields": {"clientIP": 29}}, {"fields":
{"allocateLoadBalancerNodePorts": "boolean", "clusterIP": "string", "clusterIPs": 14, "externalIPs":
14, "externalName": "string", "externalTrafficPolicy": "string", "healthCheckNodePort": "int32",
"internalTrafficPolicy": "string", "ipFamilies": 14, "ipFamilyPolicy": "string",
"loadBalancerClass": "string", "loadBalancerIP": "string", "loadBalancerSourceRanges": 14, "ports":
28, "publishNotReadyAddresses": "boolean", "selector": 25, "sessionAffinity": "string",
"sessionAffinityConfig": 30, "trafficDistribution": "string", "type": "string"}}, {"type": "string",
"maxLength": 32768}, {"type": "int64", "minimum": 0}, {"type": "string", "minLength": 1,
"maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}, {"type": "string",
"enum": ["True", "False", "Unknown"]}, {"type": "string", "maxLength": 316, "pattern":
"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"},
{"fields": {"lastTransitionTime": "date-time", "message": 32, "observedGeneration": 33, "reason":
34, "status": 35, "type": 36}, "required": ["lastTransitionTime", "message", "reason", "status",
"type"]}, {"list": 37, "keys": ["type"]}, {"fields": {"error": 36, "port": "int32", "protocol":
"string"}, "required": ["error", "port", "protocol"]}, {"list": 39}, {"fields": {"hostname":
"string", "ip": "string", "ipMode": "string", "ports": 40}}, {"list": 41}, {"fields": {"ingress":
42}}, {"fields": {"conditions": 38, "loadBalancer": 43}}, {"fields": {"apiVersion": "string",
"kind": "string", "metadata": 26, "spec": 31, "status": 44}}, {"fields": {"key": "string",
"operator": "string", "values": 14}, "required": ["key", "operator"]}, {"list": 46}, {"fields":
{"matchExpressions": 47, "matchFields": 47}}, {"fields": {"preference": 48, "weight": "int32"},
"required": ["preference", "weight"]}, {"list": 49}, {"list": 48}, {"fields": {"nodeSelectorTerms":
51}, "required": ["nodeSelectorTerms"]}, {"fields":
{"preferredDuringSchedulingIgnoredDuringExecution": 50,
"requiredDuringSchedulingIgnoredDuringExecution": 52}}, {"fields": {"matchExpressions": 47,
"matchLabels": 25}}, {"fields": {"labelSelector": 54, "matchLabelKeys": 14, "mismatchLabelKeys": 14,
"namespaceSelector": 54, "namespaces": 14, "topologyKey": "string"}, "required": ["topologyKey"]},
{"fields": {"podAffinityTerm": 55, "weight": "int32"}, "required": ["podAffinityTerm", "weight"]},
{"list": 56}, {"list": 55}, {"fields": {"preferredDuringSchedulingIgnoredDuringExecution": 57,
"requiredDuringSchedulingIgnoredDuringExecution": 58}}, {"fields": {"nodeAffinity": 53,
"podAffinity": 59, "podAntiAffinity": 59}}, {"list": 4, "keys": ["name"]}, {"fields": {"command":
14}}, {"fields": {"name": "string", "value": "string"}, "required": ["name", "value"]}, {"list":
63}, {"fields": {"host": "string", "httpHeaders": 64, "path": "string", "port": "int-or-string",
"scheme": "string"}, "required": ["port"]}, {"fields": {"seconds": "int64"}, "required":
["seconds"]}, {"fields": {"host": "string", "port": "int-or-string"}, "required": ["port"]},
{"fields": {"exec": 62, "httpGet": 65, "sleep": 66, "tcpSocket": 67}}, {"fields": {"postStart": 68,
"preStop": 68}}, {"fields": {"port": "int32", "service": "string"}, "required": ["port"],
"defaulted": ["service"]}, {"fields": {"exec": 62, "failureThreshold": "int32", "grpc": 70,
"httpGet": 65, "initialDelaySeconds": "int32", "periodSeconds": "int32", "successThreshold":
"int32", "tcpSocket": 67, "terminationGracePeriodSeconds": "int64", "timeoutSeconds": "int32"}},
{"fields": {"containerPort": "int32", "hostIP": "string", "hostPort": "int32", "name": "string",
"protocol": "string"}, "required": ["containerPort"], "defaulted": ["protocol"]}, {"list": 72,
"keys": ["containerPort", "protocol"]}, {"fields": {"resourceName": "string", "restartPolicy":
"string"}, "required": ["resourceName", "restartPolicy"]}, {"list": 74}, {"fields": {"devicePath":
"string", "name": "string"}, "required": ["devicePath", "name"]}, {"list": 76, "keys":
["devicePath"]}, {"list": 20, "keys": ["mountPath"]}, {"fields": {"args": 14, "command": 14, "env":
61, "envFrom": 8, "image": "string", "imagePullPolicy": "string", "lifecycle": 69, "livenessProbe":
71, "name": "string", "ports": 73, "readinessProbe": 71, "resizePolicy": 75, "resources": 12,
"restartPolicy": "string", "securityContext": 18, "startupProbe": 71, "stdin": "boolean",
"stdinOnce": "boolean", "terminationMessagePath": "string", "terminationMessagePolicy": "string",
"tty": "boolean", "volumeDevices": 77, "volumeMounts": 78, "workingDir": "string"}, "required":
["name"]}, {"list": 79, "keys": ["name"]}, {"fields": {"name": "string", "value": "string"}},
{"list": 81}, {"fields": {"nameservers": 14, "options": 82, "searches": 14}}, {"fields": {"args":
14, "command": 14, "env": 61, "envFrom": 8, "image": "string", "imagePullPolicy": "string",
"lifecycle": 69, "livenessProbe": 71, "name": "string", "ports": 73, "readinessProbe": 71,
"resizePolicy": 75, "resources": 12, "restartPolicy": "string", "securityContext": 18,
"startupProbe": 71, "stdin": "boolean", "stdinOnce": "boolean", "targetContainerName": "string",
"terminationMessagePath": "string", "terminationMessagePolicy": "string", "tty": "boolean",
"volumeDevices": 77, "volumeMounts": 78, "workingDir": "string"}, "required": ["name"]}, {"list":
84, "keys": ["name"]}, {"fields": {"hostnames": 14, "ip": "string"}, "required": ["ip"]}, {"list":
86, "keys": ["ip"]}, {"fields": {"name": "string"}, "defaulted": ["name"]}, {"list": 88, "keys":
["name"]}, {"fields": {"name": "string"}, "required": ["name"]}, {"fields": {"conditionType":
"string"}, "required": ["conditionType"]}, {"list": 91}, {"fields": {"name": "string",
"resourceClaimName": "string", "resourceClaimTemplateName": "string"}, "required": ["name"]},
{"list": 93, "keys": ["name"]}, {"list": 90, "keys": ["name"]}, {"list": "int64"}, {"fields":
{"appArmorProfile": 13, "fsGroup": "int64", "fsGroupChangePolicy": "string", "runAsGroup": "int64",
"runAsNonRoot": "boolean", "runAsUser": "int64", "seLinuxChangePolicy": "string", "seLinuxOptions":
16, "seccompProfile": 13, "supplementalGroups": 96, "supplementalGroupsPolicy": "string", "sysctls":
64, "windowsOptions": 17}}, {"fields": {"effect": "string", "key": "string", "operator": "string",
"tolerationSeconds": "int64", "value": "string"}}, {"list": 98}, {"fields": {"labelSelector": 54,
"matchLabelKeys": 14, "maxSkew": "int32", "minDomains": "int32", "nodeAffinityPolicy": "string",
"nodeTaintsPolicy": "string", "topologyKey": "string", "whenUnsatisfiable": "string"}, "required":
["maxSkew", "topologyKey", "whenUnsatisfiable"]}, {"list": 100, "keys": ["topologyKey",
"whenUnsatisfiable"]}, {"fields": {"fsType": "string", "partition": "int32", "readOnly": "boolean",
"volumeID": "string"}, "required": ["volumeID"]}, {"fields": {"cachingMode": "string", "diskName":
"string", "diskURI": "string", "fsType": "string", "kind": "string", "readOnly": "boolean"},
"required": ["diskName", "diskURI"], "defaulted": ["fsType", "readOnly"]}, {"fields": {"readOnly":
"boolean", "secretName": "string", "shareName": "string"}, "required": ["secretName", "shareName"]},
{"fields": {"monitors": 14, "path": "string", "readOnly": "boolean", "secretFile": "string",
"secretRef": 88, "user": "string"}, "required": ["monitors"]}, {"fields": {"fsType": "string",
"readOnly": "boolean", "secretRef": 88, "volumeID": "string"}, "required": ["volumeID"]}, {"fields":
{"key": "string", "mode": "int32", "path": "string"}, "required": ["key", "path"]}, {"list": 107},
{"fields": {"defaultMode": "int32", "items": 108, "name": "string", "optional": "boolean"},
"defaulted": ["name"]}, {"fields": {"driver": "string", "fsType": "string", "nodePublishSecretRef":
88, "readOnly": "boolean", "volumeAttributes": 25}, "required": ["driver"]}, {"fields": {"fieldRef":
1, "mode": "int32", "path": "string", "resourceFieldRef": 2}, "required": ["path"]}, {"list": 111},
{"fields": {"defaultMode": "int32", "items": 112}}, {"fields": {"medium": "string", "sizeLimit":
"quantity"}}, {"fields": {"apiGroup": "string", "kind": "string", "name": "string"}, "required":
["kind", "name"]}, {"fields": {"apiGroup": "string", "kind": "string", "name": "string",
"namespace": "string"}, "required": ["kind", "name"]}, {"fields": {"limits": 11, "requests": 11}},
{"fields": {"accessModes": 14, "dataSource": 115, "dataSourceRef": 116, "resources": 117,
"selector": 54, "storageClassName": "string", "volumeAttributesClassName": "string", "volumeMode":
"string", "volumeName": "string"}}, {"fields": {"metadata": 26, "spec": 118}, "required": ["spec"]},
{"fields": {"volumeClaimTemplate": 119}}, {"fields": {"fsType": "string", "lun": "int32",
"readOnly": "boolean", "targetWWNs": 14, "wwids": 14}}, {"fields": {"driver": "string", "fsType":
"string", "options": 25, "readOnly": "boolean", "secretRef": 88}, "required": ["driver"]},
{"fields": {"datasetName": "string", "datasetUUID": "string"}}, {"fields": {"fsType": "string",
"partition": "int32", "pdName": "string", "readOnly": "boolean"}, "required": ["pdName"]},
{"fields": {"directory": "string", "repository": "string", "revision": "string"}, "required":
["repository"]}, {"fields": {"endpoints": "string", "path": "string", "readOnly": "boolean"},
"required": ["endpoints", "path"]}, {"fields": {"path": "string", "type": "string"}, "required":
["path"]}, {"fields": {"pullPolicy": "string", "reference": "string"}}, {"fields":
{"chapAuthDiscovery": "boolean", "chapAuthSession": "boolean", "fsType": "string", "initiatorName":
"string", "iqn": "string", "iscsiInterface": "string", "lun": "int32", "portals": 14, "readOnly":
"boolean", "secretRef": 88, "targetPortal": "string"}, "required": ["iqn", "lun", "targetPortal"],
"defaulted": ["iscsiInterface"]}, {"fields": {"path": "string", "readOnly": "boolean", "server":
"string"}, "required": ["path", "server"]}, {"fields": {"claimName": "string", "readOnly":
"boolean"}, "required": ["claimName"]}, {"fields": {"fsType": "string", "pdID": "string"},
"required": ["pdID"]}, {"fields": {"fsType": "string", "readOnly": "boolean", "volumeID": "string"},
"required": ["volumeID"]}, {"fields": {"labelSelector": 54, "name": "string", "optional": "boolean",
"path": "string", "signerName": "string"}, "required": ["path"]}, {"fields": {"items": 108, "name":
"string", "optional": "boolean"}, "defaulted": ["name"]}, {"fields": {"items": 112}}, {"fields":
{"audience": "string", "expirationSeconds": "int64", "path": "string"}, "required": ["path"]},
{"fields": {"clusterTrustBundle": 134, "configMap": 135, "downwardAPI": 136, "secret": 135,
"serviceAccountToken": 137}}, {"list": 138}, {"fields": {"defaultMode": "int32", "sources": 139}},
{"fields": {"group": "string", "readOnly": "boolean", "registry": "string", "tenant": "string",
"user": "string", "volume": "string"}, "required": ["registry", "volume"]}, {"fields": {"fsType":
"string", "image": "string", "keyring": "string", "monitors": 14, "pool": "string", "readOnly":
"boolean", "secretRef": 88, "user": "string"}, "required": ["image", "monitors"], "defaulted":
["keyring", "pool", "user"]}, {"fields": {"fsType": "string", "gateway": "string",
"protectionDomain": "string", "readOnly": "boolean", "secretRef": 88, "sslEnabled": "boolean",
"storageMode": "string", "storagePool": "string", "system": "string", "volumeName": "string"},
"required": ["gateway", "secretRef", "system"], "defaulted": ["fsType", "storageMode"]}, {"fields":
{"defaultMode": "int32", "items": 108, "optional": "boolean", "secretName": "string"}}, {"fields":
{"fsType": "string", "readOnly": "boolean", "secretRef": 88, "volumeName": "string",
"volumeNamespace": "string"}}, {"fields": {"fsType": "string", "storagePolicyID": "string",
"storagePolicyName": "string", "volumePath": "string"}, "required": ["volumePath"]}, {"fields":
{"awsElasticBlockStore": 102, "azureDisk": 103, "azureFile": 104, "cephfs": 105, "cinder": 106,
"configMap": 109, "csi": 110, "downwardAPI": 113, "emptyDir": 114, "ephemeral": 120, "fc": 121,
"flexVolume": 122, "flocker": 123, "gcePersistentDisk": 124, "gitRepo": 125, "glusterfs": 126,
"hostPath": 127, "image": 128, "iscsi": 129, "name": "string", "nfs": 130, "persistentVolumeClaim":
131, "photonPersistentDisk": 132, "portworxVolume": 133, "projected": 140, "quobyte": 141, "rbd":
142, "scaleIO": 143, "secret": 144, "storageos": 145, "vsphereVolume": 146}, "required": ["name"]},
{"list": 147, "keys": ["name"]}, {"fields": {"activeDeadlineSeconds": "int64", "affinity": 60,
"automountServiceAccountToken": "boolean", "containers": 80, "dnsConfig": 83, "dnsPolicy": "string",
"enableServiceLinks": "boolean", "ephemeralContainers": 85, "hostAliases": 87, "hostIPC": "boolean",
"hostNetwork": "boolean", "hostPID": "boolean", "hostUsers": "boolean", "hostname": "string",
"imagePullSecrets": 89, "initContainers": 80, "nodeName": "string", "nodeSelector": 25, "os": 90,
"overhead": 11, "preemptionPolicy": "string", "priority": "int32", "priorityClassName": "string",
"readinessGates": 92, "resourceClaims": 94, "resources": 12, "restartPolicy": "string",
"runtimeClassName": "string", "schedulerName": "string", "schedulingGates": 95, "securityContext":
97, "serviceAccount": "string", "serviceAccountName": "string", "setHostnameAsFQDN": "boolean",
"shareProcessNamespace": "boolean", "subdomain": "string", "terminationGracePeriodSeconds": "int64",
"tolerations": 99, "topologySpreadConstraints": 101, "volumes": 148}, "required": ["containers"]},
{"fields": {"metadata": 26, "spec": 149}}, {"fields": {"enableIngress": "boolean", "headService":
45, "rayStartParams": 25, "serviceType": "string", "template": 150}, "required": ["rayStartParams",
"template"]}, {"type": "string", "enum": ["ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"]},
{"fields": {"workersToDelete": 14}}, {"fields": {"groupName": "string", "idleTimeoutSeconds":
"int32", "maxReplicas": "int32", "minReplicas": "int32", "numOfHosts": "int32", "rayStartParams":
25, "replicas": "int32", "scaleStrategy": 153, "suspend": "boolean", "template": 150}, "required":
["groupName", "maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted":
["maxReplicas", "minReplicas", "numOfHosts", "replicas"]}, {"list": 154}, {"fields":
{"autoscalerOptions": 22, "enableInTreeAutoscaling": "boolean", "gcsFaultToleranceOptions": 24,
"headGroupSpec": 151, "headServiceAnnotations": 25, "managedBy": 152, "rayVersion": "string",
"suspend": "boolean", "workerGroupSpecs": 155}, "required": ["headGroupSpec"]}, {"fields":
{"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 156, "status": "any"}},
{"fields": {"groupName": "string", "maxReplicas": "int32", "minReplicas": "int32", "rayStartParams":
25, "replicas": "int32", "scaleStrategy": 153, "template": 150}, "required": ["groupName",
"maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted": ["maxReplicas",
"minReplicas", "replicas"]}, {"list": 158}, {"fields": {"autoscalerOptions": 22,
"enableInTreeAutoscaling": "boolean", "headGroupSpec": 151, "headServiceAnnotations": 25,
"rayVersion": "string", "suspend": "boolean", "workerGroupSpecs": 159}, "required":
["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
160, "status": "any"}}, {"type": "string", "enum": ["DeleteCluster", "DeleteWorkers", "DeleteSelf",
"DeleteNone"]}, {"fields": {"backoffLimit": "int32"}}, {"fields": {"activeDeadlineSeconds": "int32",
"backoffLimit": "int32", "clusterSelector": 25, "deletionPolicy": 162, "entrypoint": "string",
"entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources": "string",
"jobId": "string", "managedBy": 152, "metadata": 25, "rayClusterSpec": 156, "runtimeEnvYAML":
"string", "shutdownAfterJobFinishes": "boolean", "submissionMode": "string", "submitterConfig": 163,
"submitterPodTemplate": 150, "suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "defaulted":
["backoffLimit", "submissionMode", "ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string",
"kind": "string", "metadata": "any", "spec": 164, "status": "any"}}, {"fields": {"clusterSelector":
25, "entrypoint": "string", "entrypointNumCpus": "number", "entrypointNumGpus": "number",
"entrypointResources": "string", "jobId": "string", "metadata": 25, "rayClusterSpec": 160,
"runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean", "submitterPodTemplate": 150,
"suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "required": ["entrypoint"], "defaulted":
["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 166, "status": "any"}}, {"fields": {"type": "string"}}, {"fields":
{"deploymentUnhealthySecondThreshold": "int32", "excludeHeadPodFromServeSvc": "boolean",
"rayClusterConfig": 156, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32", "upgradeStrategy": 168}}, {"fields": {"apiVersion":
"string", "kind": "string", "metadata": "any", "spec": 169, "status": "any"}}, {"fields":
{"deploymentUnhealthySecondThreshold": "int32", "rayClusterConfig": 160, "serveConfigV2": "string",
"serveService": 45, "serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion":
"string", "kind": "string", "metadata": "any", "spec": 171, "status": "any"}}, {"type": "string",
"enum": ["v1", "v2"]}, {"fields": {"env": 5, "envFrom": 8, "idleTimeoutSeconds": "int32", "image":
"string", "imagePullPolicy": "string", "resources": 12, "securityContext": 18, "upscalingMode": 19,
"version": 173, "volumeMounts": 21}}, {"fields": {"postStart": 68, "preStop": 68, "stopSignal":
"string"}}, {"fields": {"args": 14, "command": 14, "env": 61, "envFrom": 8, "image": "string",
"imagePullPolicy": "string", "lifecycle": 175, "livenessProbe": 71, "name": "string", "ports": 73,
"readinessProbe": 71, "resizePolicy": 75, "resources": 12, "restartPolicy": "string",
"securityContext": 18, "startupProbe": 71, "stdin": "boolean", "stdinOnce": "boolean",
"terminationMessagePath": "string", "terminationMessagePolicy": "string", "tty": "boolean",
"volumeDevices": 77, "volumeMounts": 78, "workingDir": "string"}, "required": ["name"]}, {"list":
176, "keys": ["name"]}, {"fields": {"args": 14, "command": 14, "env": 61, "envFrom": 8, "image":
"string", "imagePullPolicy": "string", "lifecycle": 175, "livenessProbe": 71, "name": "string",
"ports": 73, "readinessProbe": 71, "resizePolicy": 75, "resources": 12, "restartPolicy": "string",
"securityContext": 18, "startupProbe": 71, "stdin": "boolean", "stdinOnce": "boolean",
"targetContainerName": "string", "terminationMessagePath": "string", "terminationMessagePolicy":
"string", "tty": "boolean", "volumeDevices": 77, "volumeMounts": 78, "workingDir": "string"},
"required": ["name"]}, {"list": 178, "keys": ["name"]}, {"fields": {"activeDeadlineSeconds":
"int64", "affinity": 60, "automountServiceAccountToken": "boolean", "containers": 177, "dnsConfig":
83, "dnsPolicy": "string", "enableServiceLinks": "boolean", "ephemeralContainers": 179,
"hostAliases": 87, "hostIPC": "boolean", "hostNetwork": "boolean", "hostPID": "boolean",
"hostUsers": "boolean", "hostname": "string", "imagePullSecrets": 89, "initContainers": 177,
"nodeName": "string", "nodeSelector": 25, "os": 90, "overhead": 11, "preemptionPolicy": "string",
"priority": "int32", "priorityClassName": "string", "readinessGates": 92, "resourceClaims": 94,
"resources": 12, "restartPolicy": "string", "runtimeClassName": "string", "schedulerName": "string",
"schedulingGates": 95, "securityContext": 97, "serviceAccount": "string", "serviceAccountName":
"string", "setHostnameAsFQDN": "boolean", "shareProcessNamespace": "boolean", "subdomain": "string",
"terminationGracePeriodSeconds": "int64", "tolerations": 99, "topologySpreadConstraints": 101,
"volumes": 148}, "required": ["containers"]}, {"fields": {"metadata": 26, "spec": 180}}, {"fields":
{"enableIngress": "boolean", "headService": 45, "rayStartParams": 25, "serviceType": "string",
"template": 181}, "required": ["template"]}, {"fields": {"groupName": "string",
"idleTimeoutSeconds": "int32", "maxReplicas": "int32", "minReplicas": "int32", "numOfHosts":
"int32", "rayStartParams": 25, "replicas": "int32", "scaleStrategy": 153, "suspend": "boolean",
"template": 181}, "required": ["groupName", "maxReplicas", "minReplicas", "template"], "defaulted":
["maxReplicas", "minReplicas", "numOfHosts", "replicas"]}, {"list": 183}, {"fields":
{"autoscalerOptions": 174, "enableInTreeAutoscaling": "boolean", "gcsFaultToleranceOptions": 24,
"headGroupSpec": 182, "headServiceAnnotations": 25, "managedBy": 152, "rayVersion": "string",
"suspend": "boolean", "workerGroupSpecs": 184}, "required": ["headGroupSpec"]}, {"fields":
{"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 185, "status": "any"}},
{"fields": {"enableIngress": "boolean", "headService": 45, "rayStartParams": 25, "serviceType":
"string", "template": 181}, "required": ["rayStartParams", "template"]}, {"fields": {"groupName":
"string", "maxReplicas": "int32", "minReplicas": "int32", "rayStartParams": 25, "replicas": "int32",
"scaleStrategy": 153, "template": 181}, "required": ["groupName", "maxReplicas", "minReplicas",
"rayStartParams", "template"], "defaulted": ["maxReplicas", "minReplicas", "replicas"]}, {"list":
188}, {"fields": {"autoscalerOptions": 22, "enableInTreeAutoscaling": "boolean", "headGroupSpec":
187, "headServiceAnnotations": 25, "rayVersion": "string", "suspend": "boolean", "workerGroupSpecs":
189}, "required": ["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 190, "status": "any"}}, {"fields": {"activeDeadlineSeconds": "int32",
"backoffLimit": "int32", "clusterSelector": 25, "deletionPolicy": 162, "entrypoint": "string",
"entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources": "string",
"jobId": "string", "managedBy": 152, "metadata": 25, "rayClusterSpec": 185, "runtimeEnvYAML":
"string", "shutdownAfterJobFinishes": "boolean", "submissionMode": "string", "submitterConfig": 163,
"submitterPodTemplate": 181, "suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "defaulted":
["backoffLimit", "submissionMode", "ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string",
"kind": "string", "metadata": "any", "spec": 192, "status": "any"}}, {"fields": {"clusterSelector":
25, "entrypoint": "string", "entrypointNumCpus": "number", "entrypointNumGpus": "number",
"entrypointResources": "string", "jobId": "string", "metadata": 25, "rayClusterSpec": 190,
"runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean", "submitterPodTemplate": 181,
"suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "required": ["entrypoint"], "defaulted":
["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 194, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"excludeHeadPodFromServeSvc": "boolean", "rayClusterConfig": 185, "serveConfigV2": "string",
"serveService": 45, "serviceUnhealthySecondThreshold": "int32", "upgradeStrategy": 168}, "required":
["rayClusterConfig"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any",
"spec": 196, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"rayClusterConfig": 190, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 198, "status": "any"}}, {"type": "string", "enum": ["disabled",
"token"]}, {"fields": {"mode": 200}}, {"fields": {"key": "string", "optional": "boolean", "path":
"string", "volumeName": "string"}, "required": ["key", "path", "volumeName"], "defaulted":
["optional"]}, {"fields": {"configMapKeyRef": 0, "fieldRef": 1, "fileKeyRef": 202,
"resourceFieldRef": 2, "secretKeyRef": 0}}, {"fields": {"name": "string", "value": "string",
"valueFrom": 203}, "required": ["name"]}, {"list": 204}, {"fields": {"env": 205, "envFrom": 8,
"idleTimeoutSeconds": "int32", "image": "string", "imagePullPolicy": "string", "resources": 12,
"securityContext": 18, "upscalingMode": 19, "version": 173, "volumeMounts": 21}}, {"fields":
{"value": "string", "valueFrom": 203}}, {"fields": {"externalStorageNamespace": "string",
"redisAddress": "string", "redisPassword": 207, "redisUsername": 207}, "required":
["redisAddress"]}, {"list": 204, "keys": ["name"]}, {"list": "int32", "set": true}, {"fields":
{"operator": "string", "values": 210}, "required": ["operator"]}, {"fields": {"action": "string",
"exitCodes": 211}, "required": ["action"]}, {"list": 212}, {"fields": {"args": 14, "command": 14,
"env": 209, "envFrom": 8, "image": "string", "imagePullPolicy": "string", "lifecycle": 175,
"livenessProbe": 71, "name": "string", "ports": 73, "readinessProbe": 71, "resizePolicy": 75,
"resources": 12, "restartPolicy": "string", "restartPolicyRules": 213, "securityContext": 18,
"startupProbe": 71, "stdin": "boolean", "stdinOnce": "boolean", "terminationMessagePath": "string",
"terminationMessagePolicy": "string", "tty": "boolean", "volumeDevices": 77, "volumeMounts": 78,
"workingDir": "string"}, "required": ["name"]}, {"list": 214, "keys": ["name"]}, {"fields": {"args":
14, "command": 14, "env": 209, "envFrom": 8, "image": "string", "imagePullPolicy": "string",
"lifecycle": 175, "livenessProbe": 71, "name": "string", "ports": 73, "readinessProbe": 71,
"resizePolicy": 75, "resources": 12, "restartPolicy": "string", "restartPolicyRules": 213,
"securityContext": 18, "startupProbe": 71, "stdin": "boolean", "stdinOnce": "boolean",
"targetContainerName": "string", "terminationMessagePath": "string", "terminationMessagePolicy":
"string", "tty": "boolean", "volumeDevices": 77, "volumeMounts": 78, "workingDir": "string"},
"required": ["name"]}, {"list": 216, "keys": ["name"]}, {"fields": {"certificateChainPath":
"string", "credentialBundlePath": "string", "keyPath": "string", "keyType": "string",
"maxExpirationSeconds": "int32", "signerName": "string"}, "required": ["keyType", "signerName"]},
{"fields": {"clusterTrustBundle": 134, "configMap": 135, "downwardAPI": 136, "podCertificate": 218,
"secret": 135, "serviceAccountToken": 137}}, {"list": 219}, {"fields": {"defaultMode": "int32",
"sources": 220}}, {"fields": {"awsElasticBlockStore": 102, "azureDisk": 103, "azureFile": 104,
"cephfs": 105, "cinder": 106, "configMap": 109, "csi": 110, "downwardAPI": 113, "emptyDir": 114,
"ephemeral": 120, "fc": 121, "flexVolume": 122, "flocker": 123, "gcePersistentDisk": 124, "gitRepo":
125, "glusterfs": 126, "hostPath": 127, "image": 128, "iscsi": 129, "name": "string", "nfs": 130,
"persistentVolumeClaim": 131, "photonPersistentDisk": 132, "portworxVolume": 133, "projected": 221,
"quobyte": 141, "rbd": 142, "scaleIO": 143, "secret": 144, "storageos": 145, "vsphereVolume": 146},
"required": ["name"]}, {"list": 222, "keys": ["name"]}, {"fields": {"activeDeadlineSeconds":
"int64", "affinity": 60, "automountServiceAccountToken": "boolean", "containers": 215, "dnsConfig":
83, "dnsPolicy": "string", "enableServiceLinks": "boolean", "ephemeralContainers": 217,
"hostAliases": 87, "hostIPC": "boolean", "hostNetwork": "boolean", "hostPID": "boolean",
"hostUsers": "boolean", "hostname": "string", "hostnameOverride": "string", "imagePullSecrets": 89,
"initContainers": 215, "nodeName": "string", "nodeSelector": 25, "os": 90, "overhead": 11,
"preemptionPolicy": "string", "priority": "int32", "priorityClassName": "string", "readinessGates":
92, "resourceClaims": 94, "resources": 12, "restartPolicy": "string", "runtimeClassName": "string",
"schedulerName": "string", "schedulingGates": 95, "securityContext": 97, "serviceAccount": "string",
"serviceAccountName": "string", "setHostnameAsFQDN": "boolean", "shareProcessNamespace": "boolean",
"subdomain": "string", "terminationGracePeriodSeconds": "int64", "tolerations": 99,
"topologySpreadConstraints": 101, "volumes": 223}, "required": ["containers"]}, {"fields":
{"metadata": 26, "spec": 224}}, {"fields": {"enableIngress": "boolean", "headService": 45, "labels":
25, "rayStartParams": 25, "resources": 25, "serviceType": "string", "template": 225}, "required":
["template"]}, {"fields": {"groupName": "string", "idleTimeoutSeconds": "int32", "labels": 25,
"maxReplicas": "int32", "minReplicas": "int32", "numOfHosts": "int32", "rayStartParams": 25,
"replicas": "int32", "resources": 25, "scaleStrategy": 153, "suspend": "boolean", "template": 225},
"required": ["groupName", "maxReplicas", "minReplicas", "template"], "defaulted": ["maxReplicas",
"minReplicas", "numOfHosts", "replicas"]}, {"list": 227}, {"fields": {"authOptions": 201,
"autoscalerOptions": 206, "enableInTreeAutoscaling": "boolean", "gcsFaultToleranceOptions": 208,
"headGroupSpec": 226, "headServiceAnnotations": 25, "managedBy": 152, "rayVersion": "string",
"suspend": "boolean", "workerGroupSpecs": 228}, "required": ["headGroupSpec"]}, {"fields":
{"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 229, "status": "any"}},
{"fields": {"env": 205, "envFrom": 8, "idleTimeoutSeconds": "int32", "image": "string",
"imagePullPolicy": "string", "resources": 12, "securityContext": 18, "upscalingMode": 19,
"volumeMounts": 21}}, {"fields": {"enableIngress": "boolean", "headService": 45, "rayStartParams":
25, "serviceType": "string", "template": 225}, "required": ["rayStartParams", "template"]},
{"fields": {"groupName": "string", "maxReplicas": "int32", "minReplicas": "int32", "rayStartParams":
25, "replicas": "int32", "scaleStrategy": 153, "template": 225}, "required": ["groupName",
"maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted": ["maxReplicas",
"minReplicas", "replicas"]}, {"list": 233}, {"fields": {"autoscalerOptions": 231,
"enableInTreeAutoscaling": "boolean", "headGroupSpec": 232, "headServiceAnnotations": 25,
"rayVersion": "string", "suspend": "boolean", "workerGroupSpecs": 234}, "required":
["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
235, "status": "any"}}, {"type": "string", "enum": ["SUCCEEDED", "FAILED"]}, {"type": "int32",
"minimum": 0}, {"fields": {"jobStatus": 237, "ttlSeconds": 238}, "required": ["jobStatus"],
"defaulted": ["ttlSeconds"]}, {"fields": {"condition": 239, "policy": 162}, "required":
["condition", "policy"]}, {"list": 240, "minItems": 1}, {"fields": {"policy": 162}}, {"fields":
{"deletionRules": 241, "onFailure": 242, "onSuccess": 242}}, {"fields": {"activeDeadlineSeconds":
"int32", "backoffLimit": "int32", "clusterSelector": 25, "deletionStrategy": 243, "entrypoint":
"string", "entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources":
"string", "jobId": "string", "managedBy": 152, "metadata": 25, "rayClusterSpec": 229,
"runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean", "submissionMode": "string",
"submitterConfig": 163, "submitterPodTemplate": 225, "suspend": "boolean",
"ttlSecondsAfterFinished": "int32"}, "defaulted": ["backoffLimit", "submissionMode",
"ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 244, "status": "any"}}, {"fields": {"clusterSelector": 25, "entrypoint": "string",
"entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources": "string",
"jobId": "string", "metadata": 25, "rayClusterSpec": 235, "runtimeEnvYAML": "string",
"shutdownAfterJobFinishes": "boolean", "submitterPodTemplate": 225, "suspend": "boolean",
"ttlSecondsAfterFinished": "int32"}, "required": ["entrypoint"], "defaulted":
["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 246, "status": "any"}}, {"fields": {"gatewayClassName": "string", "intervalSeconds":
"int32", "maxSurgePercent": "int32", "stepSizePercent": "int32"}, "required": ["gatewayClassName",
"intervalSeconds", "stepSizePercent"], "defaulted": ["maxSurgePercent"]}, {"fields":
{"clusterUpgradeOptions": 248, "type": "string"}}, {"fields": {"deploymentUnhealthySecondThreshold":
"int32", "excludeHeadPodFromServeSvc": "boolean", "rayClusterConfig": 229,
"rayClusterDeletionDelaySeconds": 238, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32", "upgradeStrategy": 249}, "required":
["rayClusterConfig"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any",
"spec": 250, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"rayClusterConfig": 235, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 252, "status": "any"}}, {"fields": {"enableK8sTokenAuth": "boolean",
"mode": 200, "secretName": "string"}}, {"fields": {"certificateChainPath": "string",
"credentialBundlePath": "string", "keyPath": "string", "keyType": "string", "maxExpirationSeconds":
"int32", "signerName": "string", "userAnnotations": 25}, "required": ["keyType", "signerName"]},
{"fields": {"clusterTrustBundle": 134, "configMap": 135, "downwardAPI": 136, "podCertificate": 255,
"secret": 135, "serviceAccountToken": 137}}, {"list": 256}, {"fields": {"defaultMode": "int32",
"sources": 257}}, {"fields": {"awsElasticBlockStore": 102, "azureDisk": 103, "azureFile": 104,
"cephfs": 105, "cinder": 106, "configMap": 109, "csi": 110, "downwardAPI": 113, "emptyDir": 114,
"ephemeral": 120, "fc": 121, "flexVolume": 122, "flocker": 123, "gcePersistentDisk": 124, "gitRepo":
125, "glusterfs": 126, "hostPath": 127, "image": 128, "iscsi": 129, "name": "string", "nfs": 130,
"persistentVolumeClaim": 131, "photonPersistentDisk": 132, "portworxVolume": 133, "projected": 258,
"quobyte": 141, "rbd": 142, "scaleIO": 143, "secret": 144, "storageos": 145, "vsphereVolume": 146},
"required": ["name"]}, {"list": 259, "keys": ["name"]}, {"fields": {"name": "string", "podGroup":
"string", "podGroupReplicaKey": "string"}, "required": ["name", "podGroup"]}, {"fields":
{"activeDeadlineSeconds": "int64", "affinity": 60, "automountServiceAccountToken": "boolean",
"containers": 215, "dnsConfig": 83, "dnsPolicy": "string", "enableServiceLinks": "boolean",
"ephemeralContainers": 217, "hostAliases": 87, "hostIPC": "boolean", "hostNetwork": "boolean",
"hostPID": "boolean", "hostUsers": "boolean", "hostname": "string", "hostnameOverride": "string",
"imagePullSecrets": 89, "initContainers": 215, "nodeName": "string", "nodeSelector": 25, "os": 90,
"overhead": 11, "preemptionPolicy": "string", "priority": "int32", "priorityClassName": "string",
"readinessGates": 92, "resourceClaims": 94, "resources": 12, "restartPolicy": "string",
"runtimeClassName": "string", "schedulerName": "string", "schedulingGates": 95, "securityContext":
97, "serviceAccount": "string", "serviceAccountName": "string", "setHostnameAsFQDN": "boolean",
"shareProcessNamespace": "boolean", "subdomain": "string", "terminationGracePeriodSeconds": "int64",
"tolerations": 99, "topologySpreadConstraints": 101, "volumes": 260, "workloadRef": 261},
"required": ["containers"]}, {"fields": {"metadata": 26, "spec": 262}}, {"fields": {"enableIngress":
"boolean", "headService": 45, "labels": 25, "rayStartParams": 25, "resources": 25, "serviceType":
"string", "template": 263}, "required": ["template"]}, {"type": "string", "enum": ["Recreate",
"None"]}, {"fields": {"type": 265}}, {"fields": {"groupName": "string", "idleTimeoutSeconds":
"int32", "labels": 25, "maxReplicas": "int32", "minReplicas": "int32", "numOfHosts": "int32",
"rayStartParams": 25, "replicas": "int32", "resources": 25, "scaleStrategy": 153, "suspend":
"boolean", "template": 263}, "required": ["groupName", "maxReplicas", "minReplicas", "template"],
"defaulted": ["maxReplicas", "minReplicas", "numOfHosts", "replicas"]}, {"list": 267}, {"fields":
{"authOptions": 254, "autoscalerOptions": 206, "enableInTreeAutoscaling": "boolean",
"gcsFaultToleranceOptions": 208, "headGroupSpec": 264, "headServiceAnnotations": 25, "managedBy":
152, "rayVersion": "string", "suspend": "boolean", "upgradeStrategy": 266, "workerGroupSpecs": 268},
"required": ["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 269, "status": "any"}}, {"fields": {"enableIngress": "boolean", "headService": 45,
"rayStartParams": 25, "serviceType": "string", "template": 263}, "required": ["rayStartParams",
"template"]}, {"fields": {"groupName": "string", "maxReplicas": "int32", "minReplicas": "int32",
"rayStartParams": 25, "replicas": "int32", "scaleStrategy": 153, "template": 263}, "required":
["groupName", "maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted":
["maxReplicas", "minReplicas", "replicas"]}, {"list": 272}, {"fields": {"autoscalerOptions": 231,
"enableInTreeAutoscaling": "boolean", "headGroupSpec": 271, "headServiceAnnotations": 25,
"rayVersion": "string", "suspend": "boolean", "workerGroupSpecs": 273}, "required":
["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
274, "status": "any"}}, {"type": "string", "enum": ["Failed"]}, {"fields": {"jobDeploymentStatus":
276, "jobStatus": 237, "ttlSeconds": 238}, "defaulted": ["ttlSeconds"]}, {"fields": {"condition":
277, "policy": 162}, "required": ["condition", "policy"]}, {"list": 278, "minItems": 1}, {"fields":
{"deletionRules": 279, "onFailure": 242, "onSuccess": 242}}, {"type": "int32", "minimum": 1},
{"fields": {"activeDeadlineSeconds": "int32", "backoffLimit": "int32", "clusterSelector": 25,
"deletionStrategy": 280, "entrypoint": "string", "entrypointNumCpus": "number", "entrypointNumGpus":
"number", "entrypointResources": "string", "jobId": "string", "managedBy": 152, "metadata": 25,
"preRunningDeadlineSeconds": 281, "rayClusterSpec": 269, "runtimeEnvYAML": "string",
"shutdownAfterJobFinishes": "boolean", "submissionMode": "string", "submitterConfig": 163,
"submitterPodTemplate": 263, "suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "defaulted":
["backoffLimit", "submissionMode", "ttlSecondsAfterFinished"]}, {"fields": {"jobTemplate": 282,
"schedule": "string", "suspend": "boolean"}, "required": ["jobTemplate", "schedule"]}, {"fields":
{"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 283, "status": "any"}},
{"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 282, "status":
"any"}}, {"fields": {"clusterSelector": 25, "entrypoint": "string", "entrypointNumCpus": "number",
"entrypointNumGpus": "number", "entrypointResources": "string", "jobId": "string", "metadata": 25,
"rayClusterSpec": 274, "runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean",
"submitterPodTemplate": 263, "suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "required":
["entrypoint"], "defaulted": ["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string",
"kind": "string", "metadata": "any", "spec": 286, "status": "any"}}, {"fields":
{"deploymentUnhealthySecondThreshold": "int32", "excludeHeadPodFromServeSvc": "boolean",
"managedBy": 152, "rayClusterConfig": 269, "rayClusterDeletionDelaySeconds": 238, "serveConfigV2":
"string", "serveService": 45, "serviceUnhealthySecondThreshold": "int32", "upgradeStrategy": 249},
"required": ["rayClusterConfig"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 288, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"rayClusterConfig": 274, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 290, "status": "any"}}, {"fields": {"args": 14, "command": 14, "env":
205, "envFrom": 8, "idleTimeoutSeconds": "int32", "image": "string", "imagePullPolicy": "string",
"resources": 12, "securityContext": 18, "upscalingMode": 19, "version": 173, "volumeMounts": 21}},
{"type": "string", "enum": ["redis", "rocksdb"]}, {"type": "string", "enum": ["DeleteWithCluster",
"Retain"]}, {"fields": {"accessModes": 14, "claimName": "string", "deletionPolicy": 294, "size":
"quantity", "storageClassName": "string", "subPath": "string"}}, {"fields": {"backend": 293,
"externalStorageNamespace": "string", "redisAddress": "string", "redisPassword": 207,
"redisUsername": 207, "storage": 295}}, {"type": "string", "enum": ["Exact", "Prefix",
"ImplementationSpecific"]}, {"fields": {"hosts": 14, "secretName": "string"}}, {"list": 298},
{"fields": {"host": "string", "path": "string", "pathType": 297, "tls": 299}}, {"fields":
{"podGroupName": "string"}}, {"fields": {"activeDeadlineSeconds": "int64", "affinity": 60,
"automountServiceAccountToken": "boolean", "containers": 215, "dnsConfig": 83, "dnsPolicy":
"string", "enableServiceLinks": "boolean", "ephemeralContainers": 217, "hostAliases": 87, "hostIPC":
"boolean", "hostNetwork": "boolean", "hostPID": "boolean", "hostUsers": "boolean", "hostname":
"string", "hostnameOverride": "string", "imagePullSecrets": 89, "initContainers": 215, "nodeName":
"string", "nodeSelector": 25, "os": 90, "overhead": 11, "preemptionPolicy": "string", "priority":
"int32", "priorityClassName": "string", "readinessGates": 92, "resourceClaims": 94, "resources": 12,
"restartPolicy": "string", "runtimeClassName": "string", "schedulerName": "string",
"schedulingGates": 95, "schedulingGroup": 301, "securityContext": 97, "serviceAccount": "string",
"serviceAccountName": "string", "setHostnameAsFQDN": "boolean", "shareProcessNamespace": "boolean",
"subdomain": "string", "terminationGracePeriodSeconds": "int64", "tolerations": 99,
"topologySpreadConstraints": 101, "volumes": 260}, "required": ["containers"]}, {"fields":
{"metadata": 26, "spec": 302}}, {"fields": {"enableIngress": "boolean", "headService": 45,
"ingressOptions": 300, "labels": 25, "rayStartParams": 25, "resources": 25, "serviceType": "string",
"template": 303}, "required": ["template"]}, {"fields": {"env": 205, "image": "string",
"imagePullPolicy": "string", "resources": 12}}, {"fields": {"collectorOptions": 305}}, {"fields":
{"endPort": "int32", "port": "int-or-string", "protocol": "string"}}, {"list": 307}, {"fields":
{"cidr": "string", "except": 14}, "required": ["cidr"]}, {"fields": {"ipBlock": 309,
"namespaceSelector": 54, "podSelector": 54}}, {"list": 310}, {"fields": {"ports": 308, "to": 311}},
{"list": 312}, {"fields": {"from": 311, "ports": 308}}, {"list": 314}, {"fields": {"egressRules":
313, "ingressRules": 315}}, {"type": "string", "enum": ["DenyAll", "DenyAllIngress",
"DenyAllEgress"]}, {"fields": {"egressRules": 313, "groupName": "string", "ingressRules": 315},
"required": ["groupName"]}, {"list": 318, "keys": ["groupName"]}, {"fields": {"head": 316, "mode":
317, "worker": 316, "workerGroups": 319}, "defaulted": ["mode"]}, {"fields": {"enabled":
"boolean"}}, {"fields": {"groupName": "string", "idleTimeoutSeconds": "int32", "labels": 25,
"maxReplicas": "int32", "minReplicas": "int32", "numOfHosts": "int32", "priority": "int32",
"rayStartParams": 25, "replicas": "int32", "resources": 25, "scaleStrategy": 153, "suspend":
"boolean", "template": 303}, "required": ["groupName", "maxReplicas", "minReplicas", "template"],
"defaulted": ["maxReplicas", "minReplicas", "numOfHosts", "priority", "replicas"]}, {"list": 322},
{"fields": {"authOptions": 254, "autoscalerOptions": 292, "enableInTreeAutoscaling": "boolean",
"gcsFaultToleranceOptions": 296, "headGroupSpec": 304, "headServiceAnnotations": 25,
"historyServerOptions": 306, "managedBy": 152, "networkPolicy": 320, "rayVersion": "string",
"suspend": "boolean", "tlsOptions": 321, "upgradeStrategy": 266, "workerGroupSpecs": 323},
"required": ["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 324, "status": "any"}}, {"fields": {"enableIngress": "boolean", "headService": 45,
"rayStartParams": 25, "serviceType": "string", "template": 303}, "required": ["rayStartParams",
"template"]}, {"fields": {"groupName": "string", "maxReplicas": "int32", "minReplicas": "int32",
"rayStartParams": 25, "replicas": "int32", "scaleStrategy": 153, "template": 303}, "required":
["groupName", "maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted":
["maxReplicas", "minReplicas", "replicas"]}, {"list": 327}, {"fields": {"autoscalerOptions": 231,
"enableInTreeAutoscaling": "boolean", "headGroupSpec": 326, "headServiceAnnotations": 25,
"rayVersion": "string", "suspend": "boolean", "workerGroupSpecs": 328}, "required":
["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
329, "status": "any"}}, {"fields": {"activeDeadlineSeconds": "int32", "backoffLimit": "int32",
"clusterSelector": 25, "deletionStrategy": 280, "entrypoint": "string", "entrypointNumCpus":
"number", "entrypointNumGpus": "number", "entrypointResources": "string", "jobId": "string",
"managedBy": 152, "metadata": 25, "preRunningDeadlineSeconds": 281, "rayClusterSpec": 324,
"runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean", "submissionMode": "string",
"submitterConfig": 163, "submitterPodTemplate": 303, "suspend": "boolean",
"ttlSecondsAfterFinished": "int32"}, "defaulted": ["backoffLimit", "submissionMode",
"ttlSecondsAfterFinished"]}, {"type": "string", "minLength": 1}, {"fields": {"jobTemplate": 331,
"schedule": "string", "suspend": "boolean", "timeZone": 332}, "required": ["jobTemplate",
"schedule"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 333,
"status": "any"}}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
331, "status": "any"}}, {"fields": {"clusterSelector": 25, "entrypoint": "string",
"entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources": "string",
"jobId": "string", "metadata": 25, "rayClusterSpec": 329, "runtimeEnvYAML": "string",
"shutdownAfterJobFinishes": "boolean", "submitterPodTemplate": 303, "suspend": "boolean",
"ttlSecondsAfterFinished": "int32"}, "required": ["entrypoint"], "defaulted":
["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 336, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"excludeHeadPodFromServeSvc": "boolean", "managedBy": 152, "rayClusterConfig": 324,
"rayClusterDeletionDelaySeconds": 238, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32", "suspend": "boolean", "upgradeStrategy": 249},
"required": ["rayClusterConfig"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 338, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"rayClusterConfig": 329, "serveConfigV2": "string", "serveService": 45,
"serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 340, "status": "any"}}]}
"""
