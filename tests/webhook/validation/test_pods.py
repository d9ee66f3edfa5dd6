"""Templates whose pods the API server would refuse: problem, field, and message."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import ROOT
from tests.harness.ray_objects import (
    ClusterBuilder,
    Json,
    a_cluster,
    a_job,
    a_service,
    findings,
    found,
    with_amount,
)
from webhook.api import names
from webhook.cli.files import read_files
from webhook.manifest.reader import Manifest
from webhook.validation.finding import DENY, WARN
from webhook.validation.ruleset import check, check_file

CORPUS = ROOT / "tests" / "lab" / "parity" / "corpus"
POD = "spec.workerGroupSpecs[0].template.spec"
RAY = f"{POD}.containers[0]"
HEAD = "spec.headGroupSpec.template.spec"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SHARED = "/dev/shm"  # noqa: S108 - where Ray keeps its objects
STARTUP = {
    "shared-memory-above-limit", "volume-medium-unknown", "accelerator-unknown",
    "head-memory-too-small", "master-address-local",
}  # fmt: skip
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TERM = {"topologyKey": "zone", "labelSelector": {}}
TERM_OF_PODS = f"affinity.podAffinity.{PREFERRED}[0].podAffinityTerm"


def required_of_node(**requirement: object) -> Json:
    terms = [{"matchExpressions": [requirement]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def a_volume(**source: object) -> Json:
    return {"volumes": [{"name": "a", **source}]}


def projected(**source: object) -> Json:
    return a_volume(projected={"sources": [source]})


def a_variable(**source: object) -> Json:
    return {"env": [{"name": "A", "valueFrom": source}]}


def with_metadata(**metadata: object) -> Json:
    """Return the template of a pod with one container."""
    return {"metadata": metadata, "spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}


def mounts(*mounted: Json) -> Json:
    return {"volumeMounts": [{"name": "shared-mem", **mount} for mount in mounted]}


def in_pod(**fields: object) -> set[tuple[str, str]]:
    return found(a_cluster().group().pod(**fields))


def in_container(**fields: object) -> set[tuple[str, str]]:
    return found(a_cluster().group().container(**fields))


def refused_fields(
    *, least: int = 1, weight: int = 1, port: int = 1, mode: int = 0, zero: int = 0, text: str = ""
) -> set[str]:
    """Return the names of the fields that are refused with these values in all that have bounds."""
    preference = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    cluster = a_cluster().group().pod(
        activeDeadlineSeconds=least, dnsPolicy=text, serviceAccountName="", hostname="",
        tolerations=[{"operator": "Exists", "effect": text}],
        securityContext={"fsGroup": zero, "runAsUser": zero, "supplementalGroups": [zero]},
        affinity={
            "nodeAffinity": {PREFERRED: [{"weight": weight, "preference": preference}]},
            "podAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": TERM}]},
        },
        volumes=[
            {"name": "a", "hostPath": {"path": "/a", "type": text}},
            {"name": "b", "configMap": {"name": "c", "defaultMode": mode}},
            {"name": "c", "image": {"reference": "a", "pullPolicy": text}},
            {"name": "d", "emptyDir": {"medium": "HugePages-2Mi"}},
        ],
    ).container(
        imagePullPolicy=text, terminationMessagePolicy=text,
        ports=[{"containerPort": port, "hostPort": zero, "protocol": text}],
        livenessProbe={
            "httpGet": {"port": port, "scheme": text}, "terminationGracePeriodSeconds": least,
            "initialDelaySeconds": zero, "failureThreshold": zero,
        },
    )  # fmt: skip
    return {at.rpartition(".")[2] for _, at in found(cluster)}


@pytest.mark.parametrize(("name", "low", "high", "fields"), [
    ("least", 1, 2**31 - 1, {"activeDeadlineSeconds", "terminationGracePeriodSeconds"}),
    ("weight", 1, 100, {"weight"}),
    ("port", 1, 65535, {"port", "containerPort"}),
    ("mode", 0, 0o777, {"defaultMode"}),
    ("zero", 0, 65535, {"fsGroup", "runAsUser", "supplementalGroups[0]", "hostPort",
                        "initialDelaySeconds", "failureThreshold"}),
])  # fmt: skip
def test_numbers_are_accepted_up_to_their_bounds(
    name: str, low: int, high: int, fields: set[str]
) -> None:
    assert refused_fields(**{name: low}) == refused_fields(**{name: high}) == set()  # type: ignore[arg-type]
    assert refused_fields(**{name: low - 1}) == fields  # type: ignore[arg-type]


def test_an_empty_choice_is_the_default_of_some_fields() -> None:
    assert refused_fields(text="") == set()
    assert refused_fields(text="x") == {
        "dnsPolicy", "effect", "type", "pullPolicy", "imagePullPolicy", "terminationMessagePolicy",
        "protocol", "scheme",
    }  # fmt: skip
    (finding,) = findings(a_cluster().group().pod(os={"name": "macos"}))
    assert finding.message == 'name is "macos": write linux or windows'
    tokens = [{"path": "t", "expirationSeconds": each} for each in (599, 600, 2**32, 2**32 + 1)]
    pods = (a_cluster().group().pod(**projected(serviceAccountToken=each)) for each in tokens)
    assert [each.message for pod in pods for each in findings(pod)] == [
        f"expirationSeconds is {number}: write 600 to 4294967296" for number in (599, 4294967297)
    ]
    spread = {**SPREAD, "whenUnsatisfiable": "", "nodeTaintsPolicy": ""}
    resize = [{"resourceName": "cpu", "restartPolicy": ""}]
    empty = found(
        a_cluster().group().pod(preemptionPolicy="", topologySpreadConstraints=[spread]).container(
            volumeMounts=[{"name": "a", "mountPath": "/a", "mountPropagation": ""}],
            resizePolicy=resize, securityContext={"procMount": ""},
        )
    )  # fmt: skip
    assert {at.rpartition(".")[2] for rule, at in empty if rule == "pod-value-unknown"} == {
        "preemptionPolicy", "whenUnsatisfiable", "nodeTaintsPolicy", "mountPropagation",
        "restartPolicy", "procMount",
    }  # fmt: skip


@pytest.mark.parametrize(("fields", "rule", "at"), [
    ({"dnsPolicy": "clusterFirst"}, "value-unknown", "dnsPolicy"),
    ({"preemptionPolicy": "never"}, "value-unknown", "preemptionPolicy"),
    ({"os": {"name": "Linux"}}, "value-unknown", "os.name"),
    ({"tolerations": [{"operator": "exists"}]}, "placement-invalid", "tolerations[0].operator"),
    ({"tolerations": [{"key": "a", "effect": "x"}]}, "value-unknown", "tolerations[0].effect"),
    ({"tolerations": [{"key": "a", "tolerationSeconds": 5}]}, "placement-invalid",
     "tolerations[0].effect"),
    ({"nodeSelector": {"a b": "c"}}, "placement-invalid", "nodeSelector[a b]"),
    ({"nodeSelector": {"a": "b c"}}, "placement-invalid", "nodeSelector[a]"),
    ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}, "placement-invalid",
     f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"),
    ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ""}]}}}, "placement-invalid",
     f"affinity.podAffinity.{REQUIRED}[0].topologyKey"),
    ({"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 101,
     "podAffinityTerm": {"topologyKey": "zone"}}]}}}, "placement-invalid",
     f"affinity.podAntiAffinity.{PREFERRED}[0].weight"),
    ({"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]}, "placement-invalid",
     "topologySpreadConstraints[0].maxSkew"),
    ({"schedulingGates": [{"name": "a b"}]}, "placement-invalid", "schedulingGates[0].name"),
    ({"serviceAccountName": "$KSA_NAME"}, "name-invalid", "serviceAccountName"),
    ({"priorityClassName": "High"}, "name-invalid", "priorityClassName"),
    ({"runtimeClassName": ""}, "name-invalid", "runtimeClassName"),
    ({"hostname": "a.b"}, "name-invalid", "hostname"),
    ({"subdomain": "My.Service"}, "name-invalid", "subdomain"),
    ({"hostAliases": [{"ip": "1.2.3"}]}, "name-invalid", "hostAliases[0].ip"),
    ({"dnsPolicy": "None"}, "name-invalid", "dnsConfig"),
    *(({"activeDeadlineSeconds": seconds}, "lifecycle-invalid", "activeDeadlineSeconds")
      for seconds in (0, 2**31)),
    ({"volumes": [{"name": "A", "emptyDir": {}}]}, "volume-invalid", "volumes[0].name"),
    ({"volumes": [{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}]}, "volume-invalid",
     "volumes[0].secret"),
    ({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}, "volume-invalid",
     "volumes[1].name"),
    ({"volumes": [{"name": "a", "hostPath": {"path": "/a", "type": "directory"}}]}, "value-unknown",
     "volumes[0].hostPath.type"),
    ({"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "-1Gi"}}]}, "volume-invalid",
     "volumes[0].emptyDir.sizeLimit"),
    ({"securityContext": {"fsGroup": -1}}, "security-invalid", "securityContext.fsGroup"),
    ({"securityContext": {"seccompProfile": {"type": "Localhost"}}}, "security-invalid",
     "securityContext.seccompProfile.localhostProfile"),
    ({"hostUsers": False, "hostPID": True}, "security-invalid", "hostPID"),
    ({"shareProcessNamespace": True, "hostPID": True}, "security-invalid", "shareProcessNamespace"),
    ({"overhead": {"cpu": "-1"}}, "quantity-invalid", "overhead[cpu]"),
    *((required_of_node(**requirement), "placement-invalid",
       f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].{at}")
      for at, requirement in (
        ("operator", {"key": "a", "operator": "in"}), ("key", {"key": "", "operator": "Exists"}),
        ("values", {"key": "a", "operator": "Gt", "values": ["1", "2"]}),
        ("values", {"key": "a", "operator": "NotIn", "values": []}),
        ("values", {"key": "a", "operator": "DoesNotExist", "values": ["b"]}),
        ("values[1]", {"key": "a", "operator": "In", "values": ["b", "c d"]}),
    )),
    ({"tolerations": [{"key": "a b", "operator": "Exists"}]}, "placement-invalid",
     "tolerations[0].key"),
    ({"tolerations": [{"effect": "NoExecute"}]}, "placement-invalid", "tolerations[0].operator"),
    ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "placement-invalid",
     "tolerations[0].value"),
    ({"tolerations": [{"key": "a", "value": "b c"}]}, "placement-invalid", "tolerations[0].value"),
    ({"topologySpreadConstraints": [{**SPREAD, "topologyKey": ""}]}, "placement-invalid",
     "topologySpreadConstraints[0].topologyKey"),
    ({"topologySpreadConstraints": [
        {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]}, "placement-invalid",
     "topologySpreadConstraints[0].minDomains"),
    ({"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["a"]}]}, "placement-invalid",
     "topologySpreadConstraints[0].matchLabelKeys"),
    ({"affinity": {"podAffinity": {REQUIRED: [
        {**TERM, "labelSelector": {"matchLabels": {"a b": "c"}}}]}}}, "placement-invalid",
     f"affinity.podAffinity.{REQUIRED}[0].labelSelector.matchLabels[a b]"),
    ({"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {
        **TERM, "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}}]}}},
     "placement-invalid",
     f"{TERM_OF_PODS}.namespaceSelector.matchExpressions[0].operator"),
    ({"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, "name-invalid", "dnsConfig.nameservers"),
    ({"dnsConfig": {"options": [{"value": "5"}]}}, "name-invalid", "dnsConfig.options[0].name"),
    ({"securityContext": {"sysctls": [{"name": "Kernel", "value": "1"}]}}, "security-invalid",
     "securityContext.sysctls[0].name"),
    ({"hostIPC": True, "securityContext": {"sysctls": [{"name": "kernel.shmmax", "value": "1"}]}},
     "security-invalid", "securityContext.sysctls[0].name"),
    ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "quantity-invalid",
     "resources.limits[nvidia.com/gpu]"),
    ({"resourceClaims": [{"name": "a"}]}, "quantity-invalid", "resourceClaims[0]"),
    (a_volume(ephemeral={"volumeClaimTemplate": {"spec": {**CLAIM, "accessModes": ["RWX"]}}}),
     "volume-invalid", "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes"),
    (a_volume(ephemeral={"volumeClaimTemplate": {"spec": {**CLAIM, "resources": {}}}}),
     "volume-invalid",
     "volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage"),
    (a_volume(secret={"secretName": "s", "items": [{"key": "k", "path": "../k"}]}),
     "volume-invalid", "volumes[0].secret.items[0].path"),
    (a_volume(configMap={"name": "c", "items": [{"key": "k", "path": ""}]}), "volume-invalid",
     "volumes[0].configMap.items[0].path"),
    (a_volume(configMap={"name": "c", "defaultMode": 0o1000}), "volume-invalid",
     "volumes[0].configMap.defaultMode"),
    (a_volume(downwardAPI={"items": [{"path": "a"}]}), "volume-invalid",
     "volumes[0].downwardAPI.items[0]"),
    (a_volume(downwardAPI={"items": [{"path": "a", "resourceFieldRef": {"resource": "cpu"}}]}),
     "volume-invalid", "volumes[0].downwardAPI.items[0].resourceFieldRef.resource"),
    (projected(secret={"name": "s"}, configMap={"name": "c"}), "volume-invalid",
     "volumes[0].projected.sources[0]"),
    (projected(secret={}), "volume-invalid", "volumes[0].projected.sources[0].secret.name"),
    (projected(serviceAccountToken={"path": "t", "expirationSeconds": 599}), "volume-invalid",
     "volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds"),
    (a_volume(hostPath={"path": "/a/../b"}), "volume-invalid", "volumes[0].hostPath.path"),
    (a_volume(nfs={"server": "s", "path": "a"}), "volume-invalid", "volumes[0].nfs.path"),
    (a_volume(csi={}), "volume-invalid", "volumes[0].csi.driver"),
    ({"volumes": [{"name": f"v-{length}", "csi": {"driver": "a" * length}} for length in (63, 64)]},
     "volume-invalid", "volumes[1].csi.driver"),
])  # fmt: skip
def test_a_fault_of_a_pod_is_found_where_it_stands(fields: Json, rule: str, at: str) -> None:
    assert in_pod(**fields) == {(f"pod-{rule}", f"{POD}.{at}")}


@pytest.mark.parametrize(("fields", "rule", "at"), [
    ({"imagePullPolicy": "always"}, "value-unknown", "imagePullPolicy"),
    ({"image": ""}, "image-invalid", "image"),
    ({"image": "ray:1 "}, "image-invalid", "image"),
    ({"name": "Ray"}, "name-invalid", "name"),
    ({"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}}, "limit-invalid",
     "resources.requests[cpu]"),
    ({"resources": {"requests": {"vpc.amazonaws.com/efa": 1}}}, "limit-invalid",
     "resources.requests[vpc.amazonaws.com/efa]"),
    ({"resources": {"limits": {"rdma/hca": 2}, "requests": {"rdma/hca": 1}}}, "limit-invalid",
     "resources.requests[rdma/hca]"),
    *(({"resources": {"limits": {"google.com/tpu": amount, "cpu": 1}}}, "quantity-invalid",
       "resources.limits[google.com/tpu]") for amount in ("-1", "500m", -1, 1.5)),
    ({"resources": {"limits": {"habana.ai/gaudi": "0.5"}}}, "quantity-invalid",
     "resources.limits[habana.ai/gaudi]"),
    ({"resources": {"limits": {"memori": "1Gi"}}}, "quantity-invalid", "resources.limits[memori]"),
    ({"resources": {"limits": {"kubernetes.io/a b": 1}}}, "quantity-invalid",
     "resources.limits[kubernetes.io/a b]"),
    ({"resources": {"limits": {"memory": "-1Gi"}}}, "quantity-invalid", "resources.limits[memory]"),
    ({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, "limit-invalid", "resources"),
    ({"resources": {"limits": {"cpu": 1, "hugepages-2Mi": "3Mi"}}}, "quantity-invalid",
     "resources.limits[hugepages-2Mi]"),
    ({"resources": {"claims": [{"name": "gpu"}]}}, "quantity-invalid", "resources.claims[0].name"),
    ({"env": [{"name": ""}]}, "variable-invalid", "env[0].name"),
    ({"env": [{"name": "A=B", "value": "c"}]}, "variable-invalid", "env[0].name"),
    ({"env": [{"name": "A", "valueFrom": {}}]}, "variable-invalid", "env[0].valueFrom"),
    ({"env": [{"name": "A", "value": "b",
     "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, "variable-invalid",
     "env[0].valueFrom"),
    *(({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]},
       "variable-invalid", "env[0].valueFrom.fieldRef.fieldPath")
      for path in ("metadata.labels['a-']", "metadata.annotations['']", "spec.labels['a']",
                   "metadata.labels['a", "metadata.name']")),
    ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "$S", "key": "k"}}}]},
     "variable-invalid", "env[0].valueFrom.secretKeyRef.name"),
    ({"envFrom": [{}]}, "variable-invalid", "envFrom[0]"),
    ({"ports": [{"containerPort": 0}]}, "port-invalid", "ports[0].containerPort"),
    ({"ports": [{"containerPort": 80, "name": "a" * 16}]}, "port-invalid", "ports[0].name"),
    ({"ports": [{"containerPort": 80, "protocol": "tcp"}]}, "value-unknown", "ports[0].protocol"),
    ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
     "port-invalid", "ports[1].name"),
    ({"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
     "port-invalid", "ports[1]"),
    ({"livenessProbe": {}}, "probe-invalid", "livenessProbe"),
    ({"readinessProbe": {"tcpSocket": {"port": 0}}}, "probe-invalid",
     "readinessProbe.tcpSocket.port"),
    ({"startupProbe": {"tcpSocket": {"port": 1}, "exec": {"command": ["a"]}}}, "probe-invalid",
     "startupProbe"),
    ({"lifecycle": {"preStop": {}}}, "lifecycle-invalid", "lifecycle.preStop"),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, "lifecycle-invalid",
     "lifecycle.preStop.sleep.seconds"),
    ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "mount-invalid", "volumeMounts[0].name"),
    ({"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
     "security-invalid", "securityContext"),
    ({"securityContext": {"allowPrivilegeEscalation": False,
      "capabilities": {"add": ["SYS_PTRACE", "CAP_SYS_ADMIN"]}}}, "security-invalid",
     "securityContext.capabilities.add"),
    ({"securityContext": {"procMount": "Unmasked"}}, "security-invalid",
     "securityContext.procMount"),
    *(({"securityContext": {kind: profile}}, "security-invalid",
       f"securityContext.{kind}.localhostProfile") for kind, profile in (
        ("seccompProfile", {"type": "RuntimeDefault", "localhostProfile": "a"}),
        ("seccompProfile", {"type": "Localhost", "localhostProfile": "../a"}),
        ("appArmorProfile", {"type": "Localhost", "localhostProfile": " "}),
        ("appArmorProfile", {"type": "Localhost", "localhostProfile": "a "}),
    )),
    ({"name": ""}, "name-invalid", "name"),
    ({"image": None}, "image-invalid", "image"),
    (a_variable(fieldRef={"fieldPath": "metadata.name"}, secretKeyRef={"name": "s", "key": "k"}),
     "variable-invalid", "env[0].valueFrom"),
    (a_variable(fieldRef={"fieldPath": "spec.nodename"}), "variable-invalid",
     "env[0].valueFrom.fieldRef.fieldPath"),
    (a_variable(secretKeyRef={"name": "s", "key": "../k"}), "variable-invalid",
     "env[0].valueFrom.secretKeyRef.key"),
    (a_variable(resourceFieldRef={"resource": "cpu"}), "variable-invalid",
     "env[0].valueFrom.resourceFieldRef.resource"),
    *((a_variable(resourceFieldRef={"resource": resource, "divisor": divisor}), "variable-invalid",
       "env[0].valueFrom.resourceFieldRef.divisor")
      for resource, divisor in (("limits.cpu", "2"), ("limits.memory", "1m"))),
    ({"envFrom": [{"secretRef": {"name": "s"}, "configMapRef": {"name": "c"}}]},
     "variable-invalid", "envFrom[0]"),
    ({"envFrom": [{"prefix": "A=", "secretRef": {"name": "s"}}]}, "variable-invalid",
     "envFrom[0].prefix"),
    ({"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}, "probe-invalid",
     "livenessProbe.successThreshold"),
    ({"readinessProbe": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}},
     "probe-invalid", "readinessProbe.terminationGracePeriodSeconds"),
    ({"livenessProbe": {"exec": {"command": []}}}, "probe-invalid", "livenessProbe.exec.command"),
    ({"livenessProbe": {"tcpSocket": {"port": "A"}}}, "probe-invalid",
     "livenessProbe.tcpSocket.port"),
    ({"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": -1}}, "probe-invalid",
     "livenessProbe.periodSeconds"),
    ({"lifecycle": {"postStart": {"tcpSocket": {"port": 1}, "exec": {"command": ["a"]}}}},
     "lifecycle-invalid", "lifecycle.postStart"),
    ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
     "lifecycle-invalid", "resizePolicy[1]"),
    ({"volumeDevices": [{"name": "x", "devicePath": "/x"}]}, "mount-invalid",
     "volumeDevices[0].name"),
    (mounts({"mountPath": ""}), "mount-invalid", "volumeMounts[0].mountPath"),
    (mounts({"mountPath": "/x"}, {"mountPath": "/x"}), "mount-invalid",
     "volumeMounts[1].mountPath"),
    (mounts({"mountPath": "/x", "mountPropagation": "Bidirectional"}), "mount-invalid",
     "volumeMounts[0].mountPropagation"),
    (mounts({"mountPath": "/x", "subPath": "a/../b"}), "mount-invalid", "volumeMounts[0].subPath"),
])  # fmt: skip
def test_a_fault_of_a_container_is_found_in_place(fields: Json, rule: str, at: str) -> None:
    assert in_container(**fields) == {(f"pod-{rule}", f"{RAY}.{at}")}


NETWORK = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
PROBE = {"tcpSocket": {"port": 1}}
METRICS_PORT = {"name": "a", "containerPort": 8080}


@pytest.mark.parametrize(("cluster", "rule", "path"), [
    (a_cluster().group().pod(**NETWORK).container(ports=[{"containerPort": 1, "hostPort": 2}]),
     "port-invalid", f"{RAY}.ports[0].hostPort"),
    (a_cluster().group().pod(**NETWORK).container(ports=[METRICS_PORT]), "port-invalid",
     f"{RAY}.ports[0]"),
    (a_cluster().group().pod(restartPolicy="Never").container(
        resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
     "lifecycle-invalid", f"{RAY}.resizePolicy[0].restartPolicy"),
    (a_cluster().group().init(readinessProbe=PROBE), "probe-invalid",
     f"{POD}.initContainers[0].readinessProbe"),
    (a_cluster().group().init(lifecycle={"preStop": {"exec": {"command": ["a"]}}}),
     "lifecycle-invalid", f"{POD}.initContainers[0].lifecycle.preStop"),
    (a_cluster().group().init(name="ray-worker"), "name-invalid", f"{POD}.initContainers[0].name"),
    *((a_cluster().group(template=with_metadata(**{kind: {key: value}})), "label-invalid",
       f"spec.workerGroupSpecs[0].template.metadata.{kind}[{key}]") for kind, key, value in (
        ("labels", "a b", ""), ("labels", "a", "b c"), ("annotations", "a b", "c d"),
    )),
    (a_cluster().head(template=with_metadata(name="Head")), "name-invalid",
     "spec.headGroupSpec.template.metadata.name"),
    (a_cluster().spec(gcsFaultToleranceOptions={
        "redisAddress": "redis:6379", "redisPassword": {"valueFrom": {}}}), "variable-invalid",
     "spec.gcsFaultToleranceOptions.redisPassword.valueFrom"),
    (a_cluster().spec(authOptions={"mode": "token", "secretName": "A"}), "variable-invalid",
     "spec.authOptions.secretName"),
    (a_cluster().autoscaled(version="v2", image="ray:1 ").group(maxReplicas=3), "image-invalid",
     "spec.autoscalerOptions.image"),
    (a_cluster().autoscaled(version="v2").head_pod(serviceAccountName="1_account"), "name-invalid",
     f"{HEAD}.serviceAccountName"),
])  # fmt: skip
def test_a_fault_of_what_kuberay_derives_is_found(
    cluster: ClusterBuilder, rule: str, path: str
) -> None:
    assert found(cluster) == {(f"pod-{rule}", path)}


@pytest.mark.parametrize(("memory", "small"), [("499Mi", True), ("500Mi", False), ("400m", True)])
def test_a_head_with_less_than_500_mib_does_not_start(memory: str, small: bool) -> None:
    rules = {rule for rule, _ in found(with_amount(memory))}
    assert rules == ({"head-memory-too-small"} if small else set())


@pytest.mark.parametrize(("amount", "text"), [
    ("400m", "'400m', which is 0.4 bytes: write a unit, such as 400Mi"), ("1Mi", ""), ("0", ""),
    ("512", "'512', which is 512 bytes: write a unit, such as 512Mi"), (8, "'8', which is 8 bytes"),
    ("1e6", "'1e6', which is 1000000 bytes: write a unit, such as 512Mi"), ("2M", ""),
    (".5", "'.5', which is 0.5 bytes: write a unit, such as 512Mi"), ("500Ki", ""), ("1k", ""),
    ("0.5Mi", ""), ("10u", "'10u', which is 0.00001 bytes: write a unit, such as 512Mi"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_an_amount_of_memory_has_a_unit(kind: str, amount: str | int, text: str) -> None:
    resources = {kind: {"memory": amount, "cpu": 1}}
    listed = findings(a_cluster().group().container(resources=resources), "memory-below-mebibyte")
    assert len(listed) == bool(text)
    assert all(each.message.startswith(text) for each in listed)


def test_a_template_has_one_message_with_the_object_the_value_and_what_to_write() -> None:
    cluster = a_cluster().group("tpu", hosts=4, replicas=8).container(imagePullPolicy="always")
    (finding,) = check("RayCluster", cluster.build())
    assert finding.text == (
        'worker group "tpu", container "ray-worker": imagePullPolicy is "always": write Always'
    )


@pytest.mark.parametrize(("mounts", "wrong"), [
    ([{"name": "shared-mem", "mountPath": SHARED}], True),  # KubeRay adds none then
    ([{"name": "shared-mem", "mountPath": "/data"}], False),
    ([{"name": "dshm", "mountPath": SHARED}], True),
])  # fmt: skip
def test_the_volume_of_kuberay_may_be_mounted_in_its_place(mounts: list[Json], wrong: bool) -> None:
    rules = {rule for rule, _ in in_container(volumeMounts=mounts)}
    assert rules == ({"pod-mount-invalid"} if wrong else set())


def test_what_kuberay_overwrites_is_not_reported() -> None:
    cluster = a_cluster().autoscaled(version="v2").group(maxReplicas=3).pod(restartPolicy="")
    assert found(cluster.head_pod(serviceAccountName="1account")) == set()  # it becomes r-account


def test_the_name_of_a_container_that_kuberay_adds_is_taken() -> None:
    cluster = a_cluster().autoscaled(version="v2").group(maxReplicas=3)
    head = cluster.value["spec"]["headGroupSpec"]["template"]["spec"]
    head["containers"].append({"name": "autoscaler", "image": "a:1"})
    assert found(cluster) == {("pod-name-invalid", f"{HEAD}.containers[1].name")}
    cluster.spec(enableInTreeAutoscaling=False, autoscalerOptions=None)
    assert found(cluster) == set()


@pytest.mark.parametrize(("options", "rule", "at"), [
    ({"image": ""}, "image-invalid", "image"),
    ({"imagePullPolicy": "always"}, "value-unknown", "imagePullPolicy"),
    ({"env": [{"name": "A", "valueFrom": {}}]}, "variable-invalid", "env[0].valueFrom"),
    ({"envFrom": [{"secretRef": {"name": "A"}}]}, "variable-invalid", "envFrom[0].secretRef.name"),
    ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "mount-invalid", "volumeMounts[0].name"),
    ({"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}}, "limit-invalid",
     "resources.requests[cpu]"),
    ({"securityContext": {"runAsUser": -1}}, "security-invalid", "securityContext.runAsUser"),
])  # fmt: skip
def test_the_autoscaler_is_checked_too(options: dict[str, Any], rule: str, at: str) -> None:
    cluster = a_cluster().autoscaled(version="v2", **options).group(maxReplicas=3)
    assert found(cluster) == {(f"pod-{rule}", f"spec.autoscalerOptions.{at}")}


def test_what_only_a_gate_of_kubernetes_keeps_is_no_reason_to_deny() -> None:
    cluster = a_cluster().group().init(lifecycle={"stopSignal": "SIGTERM"})
    assert found(cluster.container(lifecycle={"stopSignal": "15"})) == set()
    cluster = a_cluster().group().container(restartPolicy="always")
    assert [each.level for each in check("RayCluster", cluster.build())] == [WARN]


@pytest.mark.parametrize(("spec", "fine"), [
    ({"hostNetwork": True}, False),
    ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, False),
    ({"hostNetwork": True, "dnsPolicy": "Default"}, False),
    ({"dnsPolicy": "Default"}, False),
    ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, True),
    ({"hostNetwork": True, "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"]}}, True),
    ({"hostNetwork": False}, True),
    ({"dnsPolicy": "ClusterFirstWithHostNet"}, True),
    ({"dnsPolicy": "ClusterFirst"}, True), ({"dnsPolicy": ""}, True),
])  # fmt: skip
def test_the_policy_of_a_worker_and_of_the_head(spec: Json, fine: bool) -> None:
    head, at = a_cluster().head_pod(**spec).group(), "headGroupSpec.template.spec.dnsPolicy"
    for built, path in (
        (a_cluster().group().pod(**spec), f"{POD}.dnsPolicy"),
        (a_job(head), f"spec.rayClusterSpec.{at}"),
        (a_service(head), f"spec.rayClusterConfig.{at}"),
    ):
        assert found(built) == (set() if fine else {("host-network-dns", path)})


@pytest.mark.parametrize(("policy", "fine"), [
    (None, False), ("Always", False), ("never", False), ("Never", True), ("OnFailure", True),
])  # fmt: skip
def test_the_submitter_says_when_it_restarts(policy: str | None, fine: bool) -> None:
    containers = [{"name": "submit", "image": "ray:1"}]
    spec = {"containers": containers, **({"restartPolicy": policy} if policy else {})}
    job = a_job().spec(submitterPodTemplate={"spec": spec})
    path = "spec.submitterPodTemplate.spec.restartPolicy"
    assert found(job) == (set() if fine else {("job-submitter-restarts", path)})


@pytest.mark.parametrize("value", [
    None, 1, "x", [], {}, [None], [1], {"a": None}, {"a": [1]}, {"limits": 1}, True, 1.5,
])  # fmt: skip
@pytest.mark.parametrize(("build", "field"), [
    *((in_pod, field) for field in (
        "containers", "initContainers", "volumes", "affinity", "tolerations", "nodeSelector",
        "topologySpreadConstraints", "securityContext", "dnsConfig", "hostAliases", "os",
        "resources", "resourceClaims", "overhead", "schedulingGates", "readinessGates",
    )),
    *((in_container, field) for field in (
        "env", "envFrom", "ports", "resources", "volumeMounts", "volumeDevices", "livenessProbe",
        "lifecycle", "securityContext", "resizePolicy", "restartPolicyRules", "image", "name",
    )),
])  # fmt: skip
def test_garbage_never_raises(build: Callable[..., object], field: str, value: object) -> None:
    build(**{field: value})


def test_manifests_as_people_write_them_are_not_denied() -> None:
    found = [each for each in read_files([CORPUS]) if isinstance(each, Manifest)]
    assert {each.kind for each in found} == set(names.RAY_KINDS)
    for each in found:
        findings = check_file(each.kind, each.document)
        denials = [finding for finding in findings if finding.level == DENY]
        warned = {finding.rule for finding in findings} & STARTUP
        assert denials == [], each.file
        assert warned == set(), each.file
