"""Objects as users write them and typical valid specs: no denial, and few warnings."""

import copy
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.ray_objects import Built, ClusterBuilder, a_cluster, a_cron_job, a_job, found
from webhook.validation.finding import WARN
from webhook.validation.ruleset import check_file

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


Json = dict[str, Any]

CORPUS: Json = yaml.safe_load((Path(__file__).parent / "corpus.yaml").read_text())
IMAGE = "rayproject/ray:2.52.0"
HEAD_PORTS = [("gcs-server", 6379), ("dashboard", 8265), ("client", 10001), ("serve", 8000)]


def merge(value: Any, other: Any) -> Any:  # noqa: ANN401 - JSON
    """Return two values joined: maps by key, lists one after the other."""
    if isinstance(value, dict) and isinstance(other, dict):
        joined = {key: merge(value.get(key), item) for key, item in other.items()}
        return value | joined
    return [*value, *other] if isinstance(value, list) and isinstance(other, list) else other


def cluster_of(device: Json, platform: Json, habit: Json) -> Json:
    container: Json = {"name": "ray-worker", "image": IMAGE}
    pod: Json = {}
    for part in (device, platform, habit):
        container = merge(container, part.get("container", {}))
        pod = merge(pod, part.get("pod", {}))
    sidecars = [habit["sidecar"]] if "sidecar" in habit else []
    head = {
        "name": "ray-head",
        "image": container["image"],
        "ports": [{"name": name, "containerPort": port} for name, port in HEAD_PORTS],
        "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
    }
    template = {"spec": {**pod, "containers": [container, *sidecars]}}
    return {
        "rayVersion": "2.52.0",
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104 - as KubeRay's samples
            "template": {"spec": {"containers": [head]}},
        },
        "workerGroupSpecs": [{"rayStartParams": {}, **device["group"], "template": template}],
        **platform.get("spec", {}),
    }


def build_objects() -> Iterator[tuple[str, Json]]:
    """Yield an object of each kind for each device and platform, in turn with each habit."""
    habits, jobs, serve = (cycle(CORPUS[name]) for name in ("habits", "jobs", "serve"))
    for (device, parts), (platform, more) in product(
        CORPUS["devices"].items(), CORPUS["platforms"].items()
    ):
        habit = next(habits)
        spec = cluster_of(parts, more, CORPUS["habits"][habit])
        job = {**next(jobs), **more.get("job", {}), "rayClusterSpec": spec}
        specs = {
            "RayCluster": spec,
            "RayJob": job,
            "RayService": {"serveConfigV2": next(serve), "rayClusterConfig": spec},
            "RayCronJob": {"schedule": "0 3 * * *", "jobTemplate": job},
        }
        for kind, value in specs.items():
            metadata = {"name": "demo", **more.get("metadata", {})}
            whole = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": value}
            yield f"{kind}-{device}-{platform}-{habit}", copy.deepcopy(whole)


OBJECTS = dict(build_objects())
EXPECTED = {
    f"{kind}-{device}-kueue": {"kueue-slices-missing"}
    for kind in ("RayCluster", "RayJob", "RayService")
    for device in ("gpu-hosts", "neuron", "tpu-slice", "tpu-v4")
}
"""The rules that report objects: advice for queues whose flavor has a topology."""


@pytest.mark.parametrize("device", CORPUS["devices"])
def test_what_users_write_is_not_reported(device: str) -> None:
    names = [name for name in OBJECTS if f"-{device}-" in name]
    findings = {name: check_file(OBJECTS[name]["kind"], OBJECTS[name]) for name in names}
    assert {name: {finding.rule for finding in listed} for name, listed in findings.items()} == {
        name: next((rules for start, rules in EXPECTED.items() if name.startswith(start)), set())
        for name in names
    }
    assert all(finding.level == WARN for listed in findings.values() for finding in listed)


def test_the_corpus_is_large_and_quiet() -> None:
    assert len(OBJECTS) >= 384
    assert len(EXPECTED) / len(OBJECTS) < 0.035
