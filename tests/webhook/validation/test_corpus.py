"""Objects as users write them: no rule denies any, since that would stop production, and few have
warnings, since a warning that is wrong is switched off with those that are right.
"""

import copy
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.validation.finding import WARN
from webhook.validation.ruleset import check_file

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
