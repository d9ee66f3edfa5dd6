"""The fields of KubeRay's four kinds, their types and limits.

Written by `python -m tests.schema.generate` (`make schema`) from the CustomResourceDefinitions
of KubeRay 1.6.2 and 1.7.0; crd.py reads it. Do not edit.
"""

from typing import Final

# fmt: off
TABLE: Final = r"""
{"roots": {"1.6": {"v1/RayCluster": 169, "v1alpha1/RayCluster": 175, "v1/RayCronJob": 189,
"v1/RayJob": 190, "v1alpha1/RayJob": 192, "v1/RayService": 196, "v1alpha1/RayService": 198}, "1.7":
{"v1/RayCluster": 232, "v1alpha1/RayCluster": 237, "v1/RayCronJob": 241, "v1/RayJob": 242,
"v1alpha1/RayJob": 244, "v1/RayService": 246, "v1alpha1/RayService": 248}}, "parts": [{"type":
"string", "enum": ["disabled", "token"]}, {"fields": {"enableK8sTokenAuth": "boolean", "mode": 0,
"secretName": "string"}}, {"fields": {"key": "string", "name": "string", "optional": "boolean"},
"required": ["key"], "defaulted": ["name"]}, {"fields": {"apiVersion": "string", "fieldPath":
"string"}, "required": ["fieldPath"]}, {"fields": {"key": "string", "optional": "boolean", "path":
"string", "volumeName": "string"}, "required": ["key", "path", "volumeName"], "defaulted":
["optional"]}, {"fields": {"containerName": "string", "divisor": "quantity", "resource": "string"},
"required": ["resource"]}, {"fields": {"configMapKeyRef": 2, "fieldRef": 3, "fileKeyRef": 4,
"resourceFieldRef": 5, "secretKeyRef": 2}}, {"fields": {"name": "string", "value": "string",
"valueFrom": 6}, "required": ["name"]}, {"list": 7}, {"fields": {"name": "string", "optional":
"boolean"}, "defaulted": ["name"]}, {"fields": {"configMapRef": 9, "prefix": "string", "secretRef":
9}}, {"list": 10}, {"fields": {"name": "string", "request": "string"}, "required": ["name"]},
{"list": 12, "keys": ["name"]}, {"map": "quantity"}, {"fields": {"claims": 13, "limits": 14,
"requests": 14}}, {"fields": {"localhostProfile": "string", "type": "string"}, "required":
["type"]}, {"list": "string"}, {"fields": {"add": 17, "drop": 17}}, {"fields": {"level": "string",
"role": "string", "type": "string", "user": "string"}}, {"fields": {"gmsaCredentialSpec": "string",
"gmsaCredentialSpecName": "string", "hostProcess": "boolean", "runAsUserName": "string"}},
{"fields": {"allowPrivilegeEscalation": "boolean", "appArmorProfile": 16, "capabilities": 18,
"privileged": "boolean", "procMount": "string", "readOnlyRootFilesystem": "boolean", "runAsGroup":
"int64", "runAsNonRoot": "boolean", "runAsUser": "int64", "seLinuxOptions": 19, "seccompProfile":
16, "windowsOptions": 20}}, {"type": "string", "enum": ["Default", "Aggressive", "Conservative"]},
{"type": "string", "enum": ["v1", "v2"]}, {"fields": {"mountPath": "string", "mountPropagation":
"string", "name": "string", "readOnly": "boolean", "recursiveReadOnly": "string", "subPath":
"string", "subPathExpr": "string"}, "required": ["mountPath", "name"]}, {"list": 24}, {"fields":
{"env": 8, "envFrom": 11, "idleTimeoutSeconds": "int32", "image": "string", "imagePullPolicy":
"string", "resources": 15, "securityContext": 21, "upscalingMode": 22, "version": 23,
"volumeMounts": 25}}, {"fields": {"value": "string", "valueFrom": 6}}, {"fields":
{"externalStorageNamespace": "string", "redisAddress": "string", "redisPassword": 27,
"redisUsername": 27}, "required": ["redisAddress"]}, {"map": "string"}, {"fields": {"annotations":
29, "finalizers": 17, "labels": 29, "name": "string", "namespace": "string"}}, {"fields":
{"appProtocol": "string", "name": "string", "nodePort": "int32", "port": "int32", "protocol":
"string", "targetPort": "int-or-string"}, "required": ["port"], "defaulted": ["protocol"]}, {"list":
31, "keys": ["port", "protocol"]}, {"fields": {"timeoutSeconds": "int32"}}, {"fields": {"clientIP":
33}}, {"fields": {"allocateLoadBalancerNodePorts": "boolean", "clusterIP": "string", "clusterIPs":
17, "externalIPs": 17, "externalName": "string", "externalTrafficPolicy": "string",
"healthCheckNodePort": "int32", "internalTrafficPolicy": "string", "ipFamilies": 17,
"ipFamilyPolicy": "string", "loadBalancerClass": "string", "loadBalancerIP": "string",
"loadBalancerSourceRanges": 17, "ports": 32, "publishNotReadyAddresses": "boolean", "selector": 29,
"sessionAffinity": "string", "sessionAffinityConfig": 34, "trafficDistribution": "string", "type":
"string"}}, {"type": "string", "maxLength": 32768}, {"type": "int64", "minimum": 0}, {"type":
"string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
{"type": "string", "enum": ["True", "False", "Unknown"]}, {"type": "string", "maxLength": 316,
"pattern":
"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"},
{"fields": {"lastTransitionTime": "date-time", "message": 36, "observedGeneration": 37, "reason":
38, "status": 39, "type": 40}, "required": ["lastTransitionTime", "message", "reason", "status",
"type"]}, {"list": 41, "keys": ["type"]}, {"fields": {"error": 40, "port": "int32", "protocol":
"string"}, "required": ["error", "port", "protocol"]}, {"list": 43}, {"fields": {"hostname":
"string", "ip": "string", "ipMode": "string", "ports": 44}}, {"list": 45}, {"fields": {"ingress":
46}}, {"fields": {"conditions": 42, "loadBalancer": 47}}, {"fields": {"apiVersion": "string",
"kind": "string", "metadata": 30, "spec": 35, "status": 48}}, {"fields": {"key": "string",
"operator": "string", "values": 17}, "required": ["key", "operator"]}, {"list": 50}, {"fields":
{"matchExpressions": 51, "matchFields": 51}}, {"fields": {"preference": 52, "weight": "int32"},
"required": ["preference", "weight"]}, {"list": 53}, {"list": 52}, {"fields": {"nodeSelectorTerms":
55}, "required": ["nodeSelectorTerms"]}, {"fields":
{"preferredDuringSchedulingIgnoredDuringExecution": 54,
"requiredDuringSchedulingIgnoredDuringExecution": 56}}, {"fields": {"matchExpressions": 51,
"matchLabels": 29}}, {"fields": {"labelSelector": 58, "matchLabelKeys": 17, "mismatchLabelKeys": 17,
"namespaceSelector": 58, "namespaces": 17, "topologyKey": "string"}, "required": ["topologyKey"]},
{"fields": {"podAffinityTerm": 59, "weight": "int32"}, "required": ["podAffinityTerm", "weight"]},
{"list": 60}, {"list": 59}, {"fields": {"preferredDuringSchedulingIgnoredDuringExecution": 61,
"requiredDuringSchedulingIgnoredDuringExecution": 62}}, {"fields": {"nodeAffinity": 57,
"podAffinity": 63, "podAntiAffinity": 63}}, {"list": 7, "keys": ["name"]}, {"fields": {"command":
17}}, {"fields": {"name": "string", "value": "string"}, "required": ["name", "value"]}, {"list":
67}, {"fields": {"host": "string", "httpHeaders": 68, "path": "string", "port": "int-or-string",
"scheme": "string"}, "required": ["port"]}, {"fields": {"seconds": "int64"}, "required":
["seconds"]}, {"fields": {"host": "string", "port": "int-or-string"}, "required": ["port"]},
{"fields": {"exec": 66, "httpGet": 69, "sleep": 70, "tcpSocket": 71}}, {"fields": {"postStart": 72,
"preStop": 72, "stopSignal": "string"}}, {"fields": {"port": "int32", "service": "string"},
"required": ["port"], "defaulted": ["service"]}, {"fields": {"exec": 66, "failureThreshold":
"int32", "grpc": 74, "httpGet": 69, "initialDelaySeconds": "int32", "periodSeconds": "int32",
"successThreshold": "int32", "tcpSocket": 71, "terminationGracePeriodSeconds": "int64",
"timeoutSeconds": "int32"}}, {"fields": {"containerPort": "int32", "hostIP": "string", "hostPort":
"int32", "name": "string", "protocol": "string"}, "required": ["containerPort"], "defaulted":
["protocol"]}, {"list": 76, "keys": ["containerPort", "protocol"]}, {"fields": {"resourceName":
"string", "restartPolicy": "string"}, "required": ["resourceName", "restartPolicy"]}, {"list": 78},
{"list": "int32", "set": true}, {"fields": {"operator": "string", "values": 80}, "required":
["operator"]}, {"fields": {"action": "string", "exitCodes": 81}, "required": ["action"]}, {"list":
82}, {"fields": {"devicePath": "string", "name": "string"}, "required": ["devicePath", "name"]},
{"list": 84, "keys": ["devicePath"]}, {"list": 24, "keys": ["mountPath"]}, {"fields": {"args": 17,
"command": 17, "env": 65, "envFrom": 11, "image": "string", "imagePullPolicy": "string",
"lifecycle": 73, "livenessProbe": 75, "name": "string", "ports": 77, "readinessProbe": 75,
"resizePolicy": 79, "resources": 15, "restartPolicy": "string", "restartPolicyRules": 83,
"securityContext": 21, "startupProbe": 75, "stdin": "boolean", "stdinOnce": "boolean",
"terminationMessagePath": "string", "terminationMessagePolicy": "string", "tty": "boolean",
"volumeDevices": 85, "volumeMounts": 86, "workingDir": "string"}, "required": ["name"]}, {"list":
87, "keys": ["name"]}, {"fields": {"name": "string", "value": "string"}}, {"list": 89}, {"fields":
{"nameservers": 17, "options": 90, "searches": 17}}, {"fields": {"args": 17, "command": 17, "env":
65, "envFrom": 11, "image": "string", "imagePullPolicy": "string", "lifecycle": 73, "livenessProbe":
75, "name": "string", "ports": 77, "readinessProbe": 75, "resizePolicy": 79, "resources": 15,
"restartPolicy": "string", "restartPolicyRules": 83, "securityContext": 21, "startupProbe": 75,
"stdin": "boolean", "stdinOnce": "boolean", "targetContainerName": "string",
"terminationMessagePath": "string", "terminationMessagePolicy": "string", "tty": "boolean",
"volumeDevices": 85, "volumeMounts": 86, "workingDir": "string"}, "required": ["name"]}, {"list":
92, "keys": ["name"]}, {"fields": {"hostnames": 17, "ip": "string"}, "required": ["ip"]}, {"list":
94, "keys": ["ip"]}, {"fields": {"name": "string"}, "defaulted": ["name"]}, {"list": 96, "keys":
["name"]}, {"fields": {"name": "string"}, "required": ["name"]}, {"fields": {"conditionType":
"string"}, "required": ["conditionType"]}, {"list": 99}, {"fields": {"name": "string",
"resourceClaimName": "string", "resourceClaimTemplateName": "string"}, "required": ["name"]},
{"list": 101, "keys": ["name"]}, {"list": 98, "keys": ["name"]}, {"list": "int64"}, {"fields":
{"appArmorProfile": 16, "fsGroup": "int64", "fsGroupChangePolicy": "string", "runAsGroup": "int64",
"runAsNonRoot": "boolean", "runAsUser": "int64", "seLinuxChangePolicy": "string", "seLinuxOptions":
19, "seccompProfile": 16, "supplementalGroups": 104, "supplementalGroupsPolicy": "string",
"sysctls": 68, "windowsOptions": 20}}, {"fields": {"effect": "string", "key": "string", "operator":
"string", "tolerationSeconds": "int64", "value": "string"}}, {"list": 106}, {"fields":
{"labelSelector": 58, "matchLabelKeys": 17, "maxSkew": "int32", "minDomains": "int32",
"nodeAffinityPolicy": "string", "nodeTaintsPolicy": "string", "topologyKey": "string",
"whenUnsatisfiable": "string"}, "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"]},
{"list": 108, "keys": ["topologyKey", "whenUnsatisfiable"]}, {"fields": {"fsType": "string",
"partition": "int32", "readOnly": "boolean", "volumeID": "string"}, "required": ["volumeID"]},
{"fields": {"cachingMode": "string", "diskName": "string", "diskURI": "string", "fsType": "string",
"kind": "string", "readOnly": "boolean"}, "required": ["diskName", "diskURI"], "defaulted":
["fsType", "readOnly"]}, {"fields": {"readOnly": "boolean", "secretName": "string", "shareName":
"string"}, "required": ["secretName", "shareName"]}, {"fields": {"monitors": 17, "path": "string",
"readOnly": "boolean", "secretFile": "string", "secretRef": 96, "user": "string"}, "required":
["monitors"]}, {"fields": {"fsType": "string", "readOnly": "boolean", "secretRef": 96, "volumeID":
"string"}, "required": ["volumeID"]}, {"fields": {"key": "string", "mode": "int32", "path":
"string"}, "required": ["key", "path"]}, {"list": 115}, {"fields": {"defaultMode": "int32", "items":
116, "name": "string", "optional": "boolean"}, "defaulted": ["name"]}, {"fields": {"driver":
"string", "fsType": "string", "nodePublishSecretRef": 96, "readOnly": "boolean", "volumeAttributes":
29}, "required": ["driver"]}, {"fields": {"fieldRef": 3, "mode": "int32", "path": "string",
"resourceFieldRef": 5}, "required": ["path"]}, {"list": 119}, {"fields": {"defaultMode": "int32",
"items": 120}}, {"fields": {"medium": "string", "sizeLimit": "quantity"}}, {"fields": {"apiGroup":
"string", "kind": "string", "name": "string"}, "required": ["kind", "name"]}, {"fields":
{"apiGroup": "string", "kind": "string", "name": "string", "namespace": "string"}, "required":
["kind", "name"]}, {"fields": {"limits": 14, "requests": 14}}, {"fields": {"accessModes": 17,
"dataSource": 123, "dataSourceRef": 124, "resources": 125, "selector": 58, "storageClassName":
"string", "volumeAttributesClassName": "string", "volumeMode": "string", "volumeName": "string"}},
{"fields": {"metadata": 30, "spec": 126}, "required": ["spec"]}, {"fields": {"volumeClaimTemplate":
127}}, {"fields": {"fsType": "string", "lun": "int32", "readOnly": "boolean", "targetWWNs": 17,
"wwids": 17}}, {"fields": {"driver": "string", "fsType": "string", "options": 29, "readOnly":
"boolean", "secretRef": 96}, "required": ["driver"]}, {"fields": {"datasetName": "string",
"datasetUUID": "string"}}, {"fields": {"fsType": "string", "partition": "int32", "pdName": "string",
"readOnly": "boolean"}, "required": ["pdName"]}, {"fields": {"directory": "string", "repository":
"string", "revision": "string"}, "required": ["repository"]}, {"fields": {"endpoints": "string",
"path": "string", "readOnly": "boolean"}, "required": ["endpoints", "path"]}, {"fields": {"path":
"string", "type": "string"}, "required": ["path"]}, {"fields": {"pullPolicy": "string", "reference":
"string"}}, {"fields": {"chapAuthDiscovery": "boolean", "chapAuthSession": "boolean", "fsType":
"string", "initiatorName": "string", "iqn": "string", "iscsiInterface": "string", "lun": "int32",
"portals": 17, "readOnly": "boolean", "secretRef": 96, "targetPortal": "string"}, "required":
["iqn", "lun", "targetPortal"], "defaulted": ["iscsiInterface"]}, {"fields": {"path": "string",
"readOnly": "boolean", "server": "string"}, "required": ["path", "server"]}, {"fields":
{"claimName": "string", "readOnly": "boolean"}, "required": ["claimName"]}, {"fields": {"fsType":
"string", "pdID": "string"}, "required": ["pdID"]}, {"fields": {"fsType": "string", "readOnly":
"boolean", "volumeID": "string"}, "required": ["volumeID"]}, {"fields": {"labelSelector": 58,
"name": "string", "optional": "boolean", "path": "string", "signerName": "string"}, "required":
["path"]}, {"fields": {"items": 116, "name": "string", "optional": "boolean"}, "defaulted":
["name"]}, {"fields": {"items": 120}}, {"fields": {"certificateChainPath": "string",
"credentialBundlePath": "string", "keyPath": "string", "keyType": "string", "maxExpirationSeconds":
"int32", "signerName": "string", "userAnnotations": 29}, "required": ["keyType", "signerName"]},
{"fields": {"audience": "string", "expirationSeconds": "int64", "path": "string"}, "required":
["path"]}, {"fields": {"clusterTrustBundle": 142, "configMap": 143, "downwardAPI": 144,
"podCertificate": 145, "secret": 143, "serviceAccountToken": 146}}, {"list": 147}, {"fields":
{"defaultMode": "int32", "sources": 148}}, {"fields": {"group": "string", "readOnly": "boolean",
"registry": "string", "tenant": "string", "user": "string", "volume": "string"}, "required":
["registry", "volume"]}, {"fields": {"fsType": "string", "image": "string", "keyring": "string",
"monitors": 17, "pool": "string", "readOnly": "boolean", "secretRef": 96, "user": "string"},
"required": ["image", "monitors"], "defaulted": ["keyring", "pool", "user"]}, {"fields": {"fsType":
"string", "gateway": "string", "protectionDomain": "string", "readOnly": "boolean", "secretRef": 96,
"sslEnabled": "boolean", "storageMode": "string", "storagePool": "string", "system": "string",
"volumeName": "string"}, "required": ["gateway", "secretRef", "system"], "defaulted": ["fsType",
"storageMode"]}, {"fields": {"defaultMode": "int32", "items": 116, "optional": "boolean",
"secretName": "string"}}, {"fields": {"fsType": "string", "readOnly": "boolean", "secretRef": 96,
"volumeName": "string", "volumeNamespace": "string"}}, {"fields": {"fsType": "string",
"storagePolicyID": "string", "storagePolicyName": "string", "volumePath": "string"}, "required":
["volumePath"]}, {"fields": {"awsElasticBlockStore": 110, "azureDisk": 111, "azureFile": 112,
"cephfs": 113, "cinder": 114, "configMap": 117, "csi": 118, "downwardAPI": 121, "emptyDir": 122,
"ephemeral": 128, "fc": 129, "flexVolume": 130, "flocker": 131, "gcePersistentDisk": 132, "gitRepo":
133, "glusterfs": 134, "hostPath": 135, "image": 136, "iscsi": 137, "name": "string", "nfs": 138,
"persistentVolumeClaim": 139, "photonPersistentDisk": 140, "portworxVolume": 141, "projected": 149,
"quobyte": 150, "rbd": 151, "scaleIO": 152, "secret": 153, "storageos": 154, "vsphereVolume": 155},
"required": ["name"]}, {"list": 156, "keys": ["name"]}, {"fields": {"name": "string", "podGroup":
"string", "podGroupReplicaKey": "string"}, "required": ["name", "podGroup"]}, {"fields":
{"activeDeadlineSeconds": "int64", "affinity": 64, "automountServiceAccountToken": "boolean",
"containers": 88, "dnsConfig": 91, "dnsPolicy": "string", "enableServiceLinks": "boolean",
"ephemeralContainers": 93, "hostAliases": 95, "hostIPC": "boolean", "hostNetwork": "boolean",
"hostPID": "boolean", "hostUsers": "boolean", "hostname": "string", "hostnameOverride": "string",
"imagePullSecrets": 97, "initContainers": 88, "nodeName": "string", "nodeSelector": 29, "os": 98,
"overhead": 14, "preemptionPolicy": "string", "priority": "int32", "priorityClassName": "string",
"readinessGates": 100, "resourceClaims": 102, "resources": 15, "restartPolicy": "string",
"runtimeClassName": "string", "schedulerName": "string", "schedulingGates": 103, "securityContext":
105, "serviceAccount": "string", "serviceAccountName": "string", "setHostnameAsFQDN": "boolean",
"shareProcessNamespace": "boolean", "subdomain": "string", "terminationGracePeriodSeconds": "int64",
"tolerations": 107, "topologySpreadConstraints": 109, "volumes": 157, "workloadRef": 158},
"required": ["containers"]}, {"fields": {"metadata": 30, "spec": 159}}, {"fields": {"enableIngress":
"boolean", "headService": 49, "labels": 29, "rayStartParams": 29, "resources": 29, "serviceType":
"string", "template": 160}, "required": ["template"]}, {"type": "string", "enum":
["ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"]}, {"type": "string", "enum": ["Recreate",
"None"]}, {"fields": {"type": 163}}, {"fields": {"workersToDelete": 17}}, {"fields": {"groupName":
"string", "idleTimeoutSeconds": "int32", "labels": 29, "maxReplicas": "int32", "minReplicas":
"int32", "numOfHosts": "int32", "rayStartParams": 29, "replicas": "int32", "resources": 29,
"scaleStrategy": 165, "suspend": "boolean", "template": 160}, "required": ["groupName",
"maxReplicas", "minReplicas", "template"], "defaulted": ["maxReplicas", "minReplicas", "numOfHosts",
"replicas"]}, {"list": 166}, {"fields": {"authOptions": 1, "autoscalerOptions": 26,
"enableInTreeAutoscaling": "boolean", "gcsFaultToleranceOptions": 28, "headGroupSpec": 161,
"headServiceAnnotations": 29, "managedBy": 162, "rayVersion": "string", "suspend": "boolean",
"upgradeStrategy": 164, "workerGroupSpecs": 167}, "required": ["headGroupSpec"]}, {"fields":
{"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 168, "status": "any"}},
{"fields": {"env": 8, "envFrom": 11, "idleTimeoutSeconds": "int32", "image": "string",
"imagePullPolicy": "string", "resources": 15, "securityContext": 21, "upscalingMode": 22,
"volumeMounts": 25}}, {"fields": {"enableIngress": "boolean", "headService": 49, "rayStartParams":
29, "serviceType": "string", "template": 160}, "required": ["rayStartParams", "template"]},
{"fields": {"groupName": "string", "maxReplicas": "int32", "minReplicas": "int32", "rayStartParams":
29, "replicas": "int32", "scaleStrategy": 165, "template": 160}, "required": ["groupName",
"maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted": ["maxReplicas",
"minReplicas", "replicas"]}, {"list": 172}, {"fields": {"autoscalerOptions": 170,
"enableInTreeAutoscaling": "boolean", "headGroupSpec": 171, "headServiceAnnotations": 29,
"rayVersion": "string", "suspend": "boolean", "workerGroupSpecs": 173}, "required":
["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
174, "status": "any"}}, {"type": "string", "enum": ["Failed"]}, {"type": "string", "enum":
["SUCCEEDED", "FAILED"]}, {"type": "int32", "minimum": 0}, {"fields": {"jobDeploymentStatus": 176,
"jobStatus": 177, "ttlSeconds": 178}, "defaulted": ["ttlSeconds"]}, {"type": "string", "enum":
["DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone"]}, {"fields": {"condition": 179,
"policy": 180}, "required": ["condition", "policy"]}, {"list": 181, "minItems": 1}, {"fields":
{"policy": 180}}, {"fields": {"deletionRules": 182, "onFailure": 183, "onSuccess": 183}}, {"type":
"int32", "minimum": 1}, {"fields": {"backoffLimit": "int32"}}, {"fields": {"activeDeadlineSeconds":
"int32", "backoffLimit": "int32", "clusterSelector": 29, "deletionStrategy": 184, "entrypoint":
"string", "entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources":
"string", "jobId": "string", "managedBy": 162, "metadata": 29, "preRunningDeadlineSeconds": 185,
"rayClusterSpec": 168, "runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean",
"submissionMode": "string", "submitterConfig": 186, "submitterPodTemplate": 160, "suspend":
"boolean", "ttlSecondsAfterFinished": "int32"}, "defaulted": ["backoffLimit", "submissionMode",
"ttlSecondsAfterFinished"]}, {"fields": {"jobTemplate": 187, "schedule": "string", "suspend":
"boolean"}, "required": ["jobTemplate", "schedule"]}, {"fields": {"apiVersion": "string", "kind":
"string", "metadata": "any", "spec": 188, "status": "any"}}, {"fields": {"apiVersion": "string",
"kind": "string", "metadata": "any", "spec": 187, "status": "any"}}, {"fields": {"clusterSelector":
29, "entrypoint": "string", "entrypointNumCpus": "number", "entrypointNumGpus": "number",
"entrypointResources": "string", "jobId": "string", "metadata": 29, "rayClusterSpec": 174,
"runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean", "submitterPodTemplate": 160,
"suspend": "boolean", "ttlSecondsAfterFinished": "int32"}, "required": ["entrypoint"], "defaulted":
["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 191, "status": "any"}}, {"fields": {"gatewayClassName": "string", "intervalSeconds":
"int32", "maxSurgePercent": "int32", "stepSizePercent": "int32"}, "required": ["gatewayClassName",
"intervalSeconds", "stepSizePercent"], "defaulted": ["maxSurgePercent"]}, {"fields":
{"clusterUpgradeOptions": 193, "type": "string"}}, {"fields": {"deploymentUnhealthySecondThreshold":
"int32", "excludeHeadPodFromServeSvc": "boolean", "managedBy": 162, "rayClusterConfig": 168,
"rayClusterDeletionDelaySeconds": 178, "serveConfigV2": "string", "serveService": 49,
"serviceUnhealthySecondThreshold": "int32", "upgradeStrategy": 194}, "required":
["rayClusterConfig"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any",
"spec": 195, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"rayClusterConfig": 174, "serveConfigV2": "string", "serveService": 49,
"serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 197, "status": "any"}}, {"fields": {"args": 17, "command": 17, "env": 8,
"envFrom": 11, "idleTimeoutSeconds": "int32", "image": "string", "imagePullPolicy": "string",
"resources": 15, "securityContext": 21, "upscalingMode": 22, "version": 23, "volumeMounts": 25}},
{"type": "string", "enum": ["redis", "rocksdb"]}, {"type": "string", "enum": ["DeleteWithCluster",
"Retain"]}, {"fields": {"accessModes": 17, "claimName": "string", "deletionPolicy": 201, "size":
"quantity", "storageClassName": "string", "subPath": "string"}}, {"fields": {"backend": 200,
"externalStorageNamespace": "string", "redisAddress": "string", "redisPassword": 27,
"redisUsername": 27, "storage": 202}}, {"type": "string", "enum": ["Exact", "Prefix",
"ImplementationSpecific"]}, {"fields": {"hosts": 17, "secretName": "string"}}, {"list": 205},
{"fields": {"host": "string", "path": "string", "pathType": 204, "tls": 206}}, {"fields":
{"podGroupName": "string"}}, {"fields": {"activeDeadlineSeconds": "int64", "affinity": 64,
"automountServiceAccountToken": "boolean", "containers": 88, "dnsConfig": 91, "dnsPolicy": "string",
"enableServiceLinks": "boolean", "ephemeralContainers": 93, "hostAliases": 95, "hostIPC": "boolean",
"hostNetwork": "boolean", "hostPID": "boolean", "hostUsers": "boolean", "hostname": "string",
"hostnameOverride": "string", "imagePullSecrets": 97, "initContainers": 88, "nodeName": "string",
"nodeSelector": 29, "os": 98, "overhead": 14, "preemptionPolicy": "string", "priority": "int32",
"priorityClassName": "string", "readinessGates": 100, "resourceClaims": 102, "resources": 15,
"restartPolicy": "string", "runtimeClassName": "string", "schedulerName": "string",
"schedulingGates": 103, "schedulingGroup": 208, "securityContext": 105, "serviceAccount": "string",
"serviceAccountName": "string", "setHostnameAsFQDN": "boolean", "shareProcessNamespace": "boolean",
"subdomain": "string", "terminationGracePeriodSeconds": "int64", "tolerations": 107,
"topologySpreadConstraints": 109, "volumes": 157}, "required": ["containers"]}, {"fields":
{"metadata": 30, "spec": 209}}, {"fields": {"enableIngress": "boolean", "headService": 49,
"ingressOptions": 207, "labels": 29, "rayStartParams": 29, "resources": 29, "serviceType": "string",
"template": 210}, "required": ["template"]}, {"fields": {"env": 8, "image": "string",
"imagePullPolicy": "string", "resources": 15}}, {"fields": {"collectorOptions": 212}}, {"fields":
{"endPort": "int32", "port": "int-or-string", "protocol": "string"}}, {"list": 214}, {"fields":
{"cidr": "string", "except": 17}, "required": ["cidr"]}, {"fields": {"ipBlock": 216,
"namespaceSelector": 58, "podSelector": 58}}, {"list": 217}, {"fields": {"ports": 215, "to": 218}},
{"list": 219}, {"fields": {"from": 218, "ports": 215}}, {"list": 221}, {"fields": {"egressRules":
220, "ingressRules": 222}}, {"type": "string", "enum": ["DenyAll", "DenyAllIngress",
"DenyAllEgress"]}, {"fields": {"egressRules": 220, "groupName": "string", "ingressRules": 222},
"required": ["groupName"]}, {"list": 225, "keys": ["groupName"]}, {"fields": {"head": 223, "mode":
224, "worker": 223, "workerGroups": 226}, "defaulted": ["mode"]}, {"fields": {"enabled":
"boolean"}}, {"fields": {"groupName": "string", "idleTimeoutSeconds": "int32", "labels": 29,
"maxReplicas": "int32", "minReplicas": "int32", "numOfHosts": "int32", "priority": "int32",
"rayStartParams": 29, "replicas": "int32", "resources": 29, "scaleStrategy": 165, "suspend":
"boolean", "template": 210}, "required": ["groupName", "maxReplicas", "minReplicas", "template"],
"defaulted": ["maxReplicas", "minReplicas", "numOfHosts", "priority", "replicas"]}, {"list": 229},
{"fields": {"authOptions": 1, "autoscalerOptions": 199, "enableInTreeAutoscaling": "boolean",
"gcsFaultToleranceOptions": 203, "headGroupSpec": 211, "headServiceAnnotations": 29,
"historyServerOptions": 213, "managedBy": 162, "networkPolicy": 227, "rayVersion": "string",
"suspend": "boolean", "tlsOptions": 228, "upgradeStrategy": 164, "workerGroupSpecs": 230},
"required": ["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 231, "status": "any"}}, {"fields": {"enableIngress": "boolean", "headService": 49,
"rayStartParams": 29, "serviceType": "string", "template": 210}, "required": ["rayStartParams",
"template"]}, {"fields": {"groupName": "string", "maxReplicas": "int32", "minReplicas": "int32",
"rayStartParams": 29, "replicas": "int32", "scaleStrategy": 165, "template": 210}, "required":
["groupName", "maxReplicas", "minReplicas", "rayStartParams", "template"], "defaulted":
["maxReplicas", "minReplicas", "replicas"]}, {"list": 234}, {"fields": {"autoscalerOptions": 170,
"enableInTreeAutoscaling": "boolean", "headGroupSpec": 233, "headServiceAnnotations": 29,
"rayVersion": "string", "suspend": "boolean", "workerGroupSpecs": 235}, "required":
["headGroupSpec"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
236, "status": "any"}}, {"fields": {"activeDeadlineSeconds": "int32", "backoffLimit": "int32",
"clusterSelector": 29, "deletionStrategy": 184, "entrypoint": "string", "entrypointNumCpus":
"number", "entrypointNumGpus": "number", "entrypointResources": "string", "jobId": "string",
"managedBy": 162, "metadata": 29, "preRunningDeadlineSeconds": 185, "rayClusterSpec": 231,
"runtimeEnvYAML": "string", "shutdownAfterJobFinishes": "boolean", "submissionMode": "string",
"submitterConfig": 186, "submitterPodTemplate": 210, "suspend": "boolean",
"ttlSecondsAfterFinished": "int32"}, "defaulted": ["backoffLimit", "submissionMode",
"ttlSecondsAfterFinished"]}, {"type": "string", "minLength": 1}, {"fields": {"jobTemplate": 238,
"schedule": "string", "suspend": "boolean", "timeZone": 239}, "required": ["jobTemplate",
"schedule"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec": 240,
"status": "any"}}, {"fields": {"apiVersion": "string", "kind": "string", "metadata": "any", "spec":
238, "status": "any"}}, {"fields": {"clusterSelector": 29, "entrypoint": "string",
"entrypointNumCpus": "number", "entrypointNumGpus": "number", "entrypointResources": "string",
"jobId": "string", "metadata": 29, "rayClusterSpec": 236, "runtimeEnvYAML": "string",
"shutdownAfterJobFinishes": "boolean", "submitterPodTemplate": 210, "suspend": "boolean",
"ttlSecondsAfterFinished": "int32"}, "required": ["entrypoint"], "defaulted":
["ttlSecondsAfterFinished"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 243, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"excludeHeadPodFromServeSvc": "boolean", "managedBy": 162, "rayClusterConfig": 231,
"rayClusterDeletionDelaySeconds": 178, "serveConfigV2": "string", "serveService": 49,
"serviceUnhealthySecondThreshold": "int32", "suspend": "boolean", "upgradeStrategy": 194},
"required": ["rayClusterConfig"]}, {"fields": {"apiVersion": "string", "kind": "string", "metadata":
"any", "spec": 245, "status": "any"}}, {"fields": {"deploymentUnhealthySecondThreshold": "int32",
"rayClusterConfig": 236, "serveConfigV2": "string", "serveService": 49,
"serviceUnhealthySecondThreshold": "int32"}}, {"fields": {"apiVersion": "string", "kind": "string",
"metadata": "any", "spec": 247, "status": "any"}}]}
"""
