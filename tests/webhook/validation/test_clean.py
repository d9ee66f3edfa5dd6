"""Typical valid specs have no finding: a wrong denial would stop production."""

import pytest

from tests.harness.ray_objects import Built, ClusterBuilder, a_cluster, a_cron_job, a_job, found

IPPR = '{"groups": {"workers": {"max-cpu": "8", "max-memory": "8Gi", "resize-timeout": 60}}}'
MEMORY = '{"groups": {"workers": {"max-cpu": 4, "max-memory": "16Gi", "resize-timeout": 60.0}}}'
CPU = {"limits": {"cpu": 1}}
OWN_INDEX = {"fieldRef": {"fieldPath": "metadata.labels['ray.io/replica-host-index']"}}
TPU_NODES = [
    {"key": "cloud.google.com/gke-tpu-accelerator", "operator": "In", "values": ["tpu-v6e-slice"]},
    {"key": "cloud.google.com/gke-tpu-topology", "operator": "In", "values": ["4x4"]},
]
REQUIRED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": TPU_NODES}]
    }
}


def tpus() -> ClusterBuilder:
    return a_cluster().group(hosts=4).tpu("4x4", 4)


SANE: dict[str, Built] = {
    "a single-host TPU group that autoscales from zero": a_cluster().autoscaled().group(replicas=0)
     .tpu("2x4", 8),
    "a v7x group with a process per NUMA node": a_cluster().group(hosts=2).tpu("2x2x2", 2, "tpu7x")
     .sidecar("ray-worker-1", resources={"limits": {"google.com/tpu": "2"}}),
    "an unknown TPU generation": a_cluster().group(hosts=3).tpu("2x6", 4, "tpu-v9-slice"),
    "a TPU group that selects its nodes by affinity": a_cluster().group(hosts=4)
     .device("google.com/tpu", 4).pod(affinity={"nodeAffinity": REQUIRED}),
    "TPU placeholders that stand for unset": tpus().env("TPU_WORKER_ID", "0")
     .env("TPU_WORKER_HOSTNAMES", "localhost"),
    "a host index of the pod's own labels": tpus().env("TPU_WORKER_ID", {"valueFrom": OWN_INDEX}),
    "a MIG slice": a_cluster().group().device("nvidia.com/mig-1g.5gb", 1),
    "custom resources as the autoscaler reads them": a_cluster().autoscaled()
     .group(rayStartParams={"resources": '"{\\"A\\": 1}"'}),
    "custom resources in single quotes": a_cluster().autoscaled()
     .group(rayStartParams={"resources": "'{\"A\": 1}'"}),
    "a head that takes no tasks": a_cluster().autoscaled()
     .head(rayStartParams={"num-cpus": "0", "dashboard-host": "::"}).group(),
    "bounds that the CRD will fill in": a_cluster()
     .group(replicas=None, minReplicas=None, maxReplicas=None, numOfHosts=None),
    "an image of one's own with a version of its own": a_cluster().group()
     .container(image="registry.example/llm/ray-serve:1.0.3"),
    "a nightly image": a_cluster().group().container(image="rayproject/ray:nightly-py310-gpu"),
    "in-place resize of memory alone": a_cluster().spec(rayVersion="2.56.0")
     .annotated("ray.io/ippr", MEMORY).head_container(image="r:1", resources=CPU).autoscaled()
     .group().container(image="r:1"),
    "an empty resize annotation": a_cluster().annotated("ray.io/ippr", "").group(),
    "in-place resize where the release is unknown": a_cluster().spec(rayVersion=None)
     .annotated("ray.io/ippr", IPPR).head_container(image="r:1", resources=CPU).autoscaled()
     .group().container(image="r:1"),
    "gang scheduling by Yunikorn": a_cluster().label("ray.io/gang-scheduling-enabled", "true")
     .label("yunikorn.apache.org/queue", "root.default").group(),
    "a RayJob that Kueue starts": a_job().meta(name=None, generateName="job-")
     .spec(suspend=True, shutdownAfterJobFinishes=True),
    "a RayCronJob": a_cron_job().spec(schedule="@every 1h30m", timeZone="Etc/GMT+3"),
}  # fmt: skip


@pytest.mark.parametrize("built", SANE.values(), ids=SANE)
def test_a_sane_spec_has_no_finding(built: Built) -> None:
    assert found(built) == set()
