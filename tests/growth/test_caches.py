"""Everything that a process remembers is bounded in bytes, whatever users write: all containers
that are reachable from its modules and its composition are measured while objects change.
"""

import asyncio
import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.builders import Object, a_cluster, a_pod, uid_of
from tests.growth.containers import LRU, Container, containers, grown, instances
from tests.growth.entries import OBJECTS
from tests.growth.parts import Part, kind_part, sample
from tests.harness.apiserver import object_review, pod_review
from tests.harness.work import run_in_own_process
from webhook.admission.reviewer import Mutation, ObjectReviewer
from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.api.review import BadReview, NotNow
from webhook.api.tenant_cache import TenantCache
from webhook.app import controller, dashboard, serve
from webhook.cache.live import ClusterState
from webhook.config.configuration import Installation, Listen, Settings, Tls
from webhook.groups.annotations import OPT_INS
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_labels import WorkerPod
from webhook.mutation.patch_template import PatchCache
from webhook.objects.object_cache import ObjectCache

_ROUND: Final = 15
_TEXT: Final = 40_000
_BYTES_MAX: Final = 512 * 1024
"""Of what a container may grow while 30 objects with long texts change."""
_ENTRY_MAX: Final = 1024

SETTINGS: Final = Settings(
    installation=Installation(namespace="ray-webhook"),
    listen=Listen(host="127.0.0.1", admin_port=0),
    tls=Tls(source="self-signed"),
    kubeconfig=Path("of-no-cluster"),
)


def long(number: int, length: int = _TEXT) -> str:
    return f"{number:08}" * (length // 8)


def hostile(part: Part, number: int, depth: int = 4) -> Any:  # noqa: ANN401 - JSON
    value = sample(part, number, depth)

    def longer(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return {key: longer(each) for key, each in value.items()}
        if isinstance(value, list):
            return [longer(each) for each in value]
        return long(number, 1600) if isinstance(value, str) else value

    return longer(value)


def ray_object(kind: str, number: int) -> Object:
    """Return an object of a kind with long texts, at a place in which their lengths matter."""
    value = hostile(kind_part(kind), number)
    value |= {"apiVersion": "ray.io/v1", "kind": kind}
    value["metadata"] = {"name": f"x{number}", "namespace": "ns", "uid": f"u{number}"}
    annotations = {row.annotation: long(number) for row in OPT_INS}
    annotations[names.ANNOTATION_IPPR] = json.dumps({"groups": {long(number): {"max-cpu": "1"}}})
    value["metadata"]["annotations"] = annotations
    spec = value["spec"]
    if kind == "RayService":
        spec["serveConfigV2"] = f"applications: [{{import_path: '{long(number)}'}}]"
    if kind == "RayJob":
        spec["runtimeEnvYAML"] = f"env_vars: {{A: '{long(number)}'}}"
    return value  # type: ignore[no-any-return]


def worker(number: int) -> Object:
    pod = a_pod().of("c").worker(f"g{number % 50}").gpu(8).identity(number, 1, f"g-{number:05}")
    pod.env("A", long(number, _TEXT // 4)).annotated("a", long(number, _TEXT // 4)).resource(
        f"{number:08}" * 40, "1"
    )
    document = pod.build()
    document["metadata"]["creationTimestamp"] = long(number, 1000)
    for container in document["spec"]["containers"]:
        container["image"] = long(number, _TEXT // 4)
    return document


def review_round(mutation: Mutation, validation: ObjectReviewer, start: int) -> None:
    with asyncio.Runner() as runner:
        for number in range(start, start + _ROUND):
            pod = json.dumps(pod_review(worker(number), dry_run=True)).encode()
            for _ in range(2):
                runner.run(mutation.review(pod))
            for kind in OBJECTS:
                body = json.dumps(object_review(ray_object(kind, number))).encode()
                for reviewer in (mutation, validation):
                    with suppress(BadReview, NotNow):  # of what has to be read first
                        runner.run(reviewer.review(body))


def watch_round(state: ClusterState, start: int) -> None:
    (stores,) = state.stores.values()
    for number in range(start, start + _ROUND):
        document = ray_object("RayCluster", number)
        document["spec"] = {"workerGroupSpecs": [{"groupName": long(number)}]}
        cluster = msgspec.convert(document, RayCluster)
        pod = worker(number)
        pod["metadata"] |= {
            "uid": long(number),
            "annotations": {names.ANNOTATION_HOLDER: long(number)},
        }
        pod["metadata"]["ownerReferences"][0]["uid"] = long(number)
        live = msgspec.json.decode(json.dumps(pod), type=WorkerPod)
        stores.clusters.put(cluster)
        stores.clusters.remove(cluster.metadata.uid or "")
        stores.pods.put(live)
        stores.pods.remove(live.metadata.uid or "")


def unbounded(before: dict[int, Container], after: dict[int, Container]) -> dict[str, str]:
    found = {}
    for old, new in grown(before, after):
        rate = (new.size - old.size) / max(new.entries - old.entries, 1)
        unlimited = isinstance(new.value, LRU) and new.value.cache_parameters()["maxsize"] is None
        long_entries = isinstance(new.value, LRU) and rate > _ENTRY_MAX
        if "TenantCache" in new.path:
            continue
        if new.size - old.size > _BYTES_MAX or unlimited or long_entries:
            found[new.path] = f"{old.entries} to {new.entries} entries, {old.size} to {new.size} B"
    return found


def grown_of_serve() -> dict[str, str]:
    process = serve.build(SETTINGS, io.BytesIO())
    (state,) = instances(ClusterState, process)
    mutation, validation = (next(instances(kind, process)) for kind in (Mutation, ObjectReviewer))
    (stores,) = state.stores.values()
    cluster = a_cluster("c")
    for number in range(50):
        cluster.group(f"g{number}", hosts=4, replicas=_ROUND * 9)
    known = msgspec.convert(cluster.build(), RayCluster)
    stores.clusters.put(known)
    for index in instances(ClusterIndex, process):
        index.freshness = None
    review_round(mutation, validation, 0)
    watch_round(state, 0)
    before = containers(process)
    for start in (_ROUND, 2 * _ROUND):
        review_round(mutation, validation, start)
        watch_round(state, start)
    found = unbounded(before, containers(process))
    (patches,) = instances(PatchCache, process)
    assert 0 < patches.groups.size <= patches.groups.bytes_max
    stores.clusters.remove(uid_of("c"))
    del known
    assert patches.groups.size == 0
    caches = list(instances(TenantCache, process))
    assert caches
    assert all(cache.size <= cache.bytes_max for cache in caches)
    return found


def test_what_serve_remembers_of_reviews_and_events_is_bounded_in_bytes() -> None:
    assert run_in_own_process(grown_of_serve) == {}


@pytest.mark.parametrize("build", [
    lambda: controller.build(SETTINGS, io.BytesIO()),
    lambda: dashboard.build_stated(ObjectCache(), 0.0, {}, 0),
], ids=["controller", "dashboard"])  # fmt: skip
def test_other_processes_have_no_cache_with_long_entries(build: Callable[[], object]) -> None:
    process = build()
    for container in containers(process).values():
        if isinstance(container.value, LRU):
            assert container.size <= _BYTES_MAX, container.path


def test_a_cache_of_texts_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, int] = {}
    monkeypatch.setattr(serve, "kept", kept, raising=False)
    before = containers()
    for number in range(_ROUND):
        kept[long(number)] = number
    assert [*unbounded(before, containers())] == ["webhook.app.serve > dict"]
