"""Entries that belong to a whole process: the sweep of Leases, the dashboard, the commands."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NamedTuple, cast

import httpx
import msgspec

from tests.builders import NAMESPACE, ClusterBuilder, Object, a_cluster, uid_of
from tests.harness.dashboard_page import Setup
from tests.harness.scenes import CREATED, Scene, llama
from tests.harness.work import Build, Call
from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.cache.cluster_cache import read_cluster
from webhook.cli.main import main
from webhook.cli.missing_pods import read_forecasts
from webhook.controller.repair.repair_records import RepairRecords
from webhook.controller.repair.repair_store import RepairStore
from webhook.dashboard.page import DashboardSite
from webhook.dashboard.routes import site_application
from webhook.dashboard.session import Session
from webhook.groups.group_config import read_cluster_config
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.reservation_leases import LeaseStore
from webhook.kubeclient.timeouts import ServerTime
from webhook.objects.object_cache import EVENTS


class Case(NamedTuple):
    """A repeated part of the input of an entry; up to `limit` of them."""

    entry: str
    part: str
    build: Build
    limit: int


_OF_A_POD = (
    "/pod?namespace={namespace}&name={name}",
    "/host?namespace={namespace}&cluster=llama&group={group}&replica=0&host=0",
    "/api/v1/pods/{namespace}/{name}",
)


def process_cases() -> Iterator[Case]:
    for part in ("Leases", "RayClusters", "namespaces", "spoiled Leases"):
        yield Case("sweep Leases", part, partial(_sweeping, part), 2000)
    for part in ("groups", "replicas"):
        yield Case("read groups for repair", part, partial(_reading_groups, part), 1000)
    for path in ("/", "/api/v1/status", *_OF_A_POD):
        for part in ("groups", "replicas"):
            yield Case(f"GET {path}", part, partial(_getting, path, part), 500)
    for part, population in _POPULATIONS.items():
        yield Case("ray-webhook status", part, partial(_status, population), 500)
        yield Case("read a cluster for status", part, partial(_reading_cluster, population), 500)
    for words in (("validate",), ("preview",), ("preview", "--summary")):
        for part in ("groups", "RayClusters", "files"):
            yield Case(f"ray-webhook {' '.join(words)}", part, partial(_command, words, part), 200)


class Lists:
    """An API server with Leases of tables, RayClusters and pods, and other objects by plural."""

    def __init__(
        self,
        leases: list[Object],
        rayclusters: list[Object],
        pods: Iterable[Object] = (),
        **others: list[Object],
    ) -> None:
        self.server_time = ServerTime(lambda: 0.0)
        self._pages = {"leases": _page(leases), "rayclusters": _page(rayclusters)}
        self._pages["pods"] = _page([*pods])
        self._pages |= {plural: _page(objects) for plural, objects in others.items()}
        self.timeout = asyncio.timeout
        self.deleted = 0

    async def get(self, path: str, _query: Query = (), _deadline: float = 0, **_: object) -> bytes:
        return self._pages.get(path.rpartition("/")[2], _page([]))

    async def find(self, *_: object) -> None:
        """Return no version of an API: none is served."""

    async def delete(self, _path: str, _uid: str, _version: str, _deadline: float = 0) -> None:
        self.deleted += 1


def _page(items: list[Object]) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()


def _sweeping(part: str, number: int) -> Call:
    listed = number if part == "RayClusters" else 1
    rayclusters = [
        {"metadata": {"name": f"c{each}", "uid": f"u{each}", "resourceVersion": "1"}}
        for each in range(listed)
    ]
    leases = [_lease(each, part) for each in range(1 if part == "RayClusters" else number)]
    store = LeaseStore(cast("Api", Lists(leases, rayclusters)), "system")

    async def sweep() -> None:
        for _ in range(2):  # the second sweep deletes what neither can decode
            await store.clean_up()

    return lambda: asyncio.run(sweep())


def _reading_groups(part: str, number: int) -> Call:
    scene = scene_of(part, number)
    config = read_cluster_config(msgspec.convert(scene.cluster, RayCluster))
    api = cast("Api", Lists([], [scene.cluster], scene.pods.values()))
    store = RepairStore(api, RepairRecords(api, "system", "repair"))

    def read() -> None:
        groups = asyncio.run(store.groups(config))
        assert sum(len(group.pods) for group in groups.values()) >= number

    return read


def _lease(number: int, part: str) -> Object:
    namespace = f"n{number}" if part == "namespaces" else NAMESPACE
    table = {"namespace": namespace, "cluster": "c", "uid": f"u{number}", "group": "g"}
    text = "{" if part == "spoiled Leases" else json.dumps({**table, "block": 0, "entries": {}})
    meta = {
        "name": f"ray-webhook-reservations-{number}",
        "uid": f"lease-{number}",
        "resourceVersion": "1",
        "labels": {names.LABEL_RESERVATIONS: "true"},
        "annotations": {names.ANNOTATION_RESERVATIONS: text},
    }
    return {"metadata": meta}


def _getting(path: str, part: str, number: int) -> Call:
    scene = scene_of(part, number)
    pod = next(pod for name, pod in scene.pods.items() if "worker" in name)["metadata"]
    target = path.format(**pod, group=pod["labels"][names.LABEL_GROUP])
    setup = Setup(scene.observed())
    site = DashboardSite(setup.live, Session(), setup.drawer)
    headers = {"authorization": f"Bearer {site.session.token}"}
    transport = httpx.ASGITransport(site_application(site))

    async def get() -> None:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:
            assert (await client.get(target)).status_code == httpx.codes.OK

    return lambda: asyncio.run(get())


def _quotas(number: int) -> Scene:
    scene = Scene(llama()).without("llama-tpu-worker-1-3")  # a pod whose creation is forecast
    for each in range(number):
        meta = {"name": f"q{each}", "namespace": NAMESPACE, "uid": f"q{each}"}
        hard = {"pods": f"{each}"}
        scene.quotas.append({"metadata": meta, "spec": {"hard": hard}, "status": {"hard": hard}})
    return scene


def _events(number: int) -> Scene:
    scene, name = Scene(llama()), "llama-tpu-worker-1-3"
    scene.changed(name, status={"conditions": [{"type": "Ready", "status": "False"}]})
    for each in range(number):
        about = {"kind": "Pod", "name": name, "uid": uid_of(name)}
        event = {"involvedObject": about, "reason": EVENTS[each % len(EVENTS)]}
        times = {"lastTimestamp": CREATED, "message": f"Container x failed liveness probe {each}"}
        meta = {"name": f"e{each}", "namespace": NAMESPACE, "uid": f"e{each}"}
        scene.events.append({"metadata": meta, **event, **times})
    return scene


def _conditions(number: int) -> Scene:
    scene = Scene(llama())
    conditions = [{"type": f"C{each}", "status": "False"} for each in range(number)]
    scene.cluster["status"] = {"conditions": conditions}
    for name in scene.pods:
        scene.changed(name, status={"phase": "Running", "conditions": conditions})
    return scene


def _rayclusters(number: int) -> list[Scene]:
    return [scene_of("groups", 1).renamed(NAMESPACE, f"llama-{each}") for each in range(number)]


Population = Callable[[int], list[Scene]]

_POPULATIONS: Final[dict[str, Population]] = {
    "RayClusters": _rayclusters,
    "groups": lambda number: [scene_of("groups", number)],
    "pods": lambda number: [Scene(a_cluster("llama").group("g", hosts=2, replicas=number))],
    "events": lambda number: [_events(number)],
    "conditions": lambda number: [_conditions(number)],
    "ResourceQuotas": lambda number: [_quotas(number)],
}


def _status(population: Population, number: int) -> Call:
    file = Path(mkdtemp()) / "state.json"
    items = [item for scene in population(number) for item in _items(scene)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def run() -> None:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert main(["status", "-A", "-o", "json", "--state", str(file)]) in (0, 1)

    return run


def _items(scene: Scene) -> Iterator[Object]:
    yield {"apiVersion": "ray.io/v1", "kind": "RayCluster", **scene.cluster}
    kinds = {"Pod": scene.pods.values(), "Event": scene.events, "Node": scene.nodes}
    for kind, objects in (kinds | {"ResourceQuota": scene.quotas}).items():
        for item in objects:
            yield {"apiVersion": "v1", "kind": kind, **item}


def _reading_cluster(population: Population, number: int) -> Call:
    scenes = population(number)
    others = {
        "events": [event for scene in scenes for event in scene.events],
        "nodes": [node for scene in scenes for node in scene.nodes],
        "resourcequotas": [quota for scene in scenes for quota in scene.quotas],
    }
    pods = [pod for scene in scenes for pod in scene.pods.values()]
    api = cast("Api", Lists([], [scene.cluster for scene in scenes], pods, **others))

    async def read() -> None:
        objects, _ = await read_cluster(api, "")
        await read_forecasts(api, "", objects)
        assert len(objects.pods.all) == len(pods)

    return lambda: asyncio.run(read())


def groups_of(number: int, name: str = "llama") -> ClusterBuilder:
    cluster = a_cluster(name)
    for each in range(number):
        cluster.group(f"g{each}", hosts=2, replicas=1)
    return cluster


def scene_of(part: str, number: int) -> Scene:
    return Scene(llama(replicas=number) if part == "replicas" else groups_of(number))


def _command(words: tuple[str, ...], part: str, number: int) -> Call:
    folder = Path(mkdtemp())
    groups = number if part == "groups" else 1
    kind = {"apiVersion": "ray.io/v1", "kind": "RayCluster"}
    texts = [
        json.dumps(kind | groups_of(groups, f"c{each}").build())
        for each in range(1 if part == "groups" else number)
    ]
    for index, text in enumerate(texts if part == "files" else ["\n---\n".join(texts)]):
        (folder / f"{index:05}.yaml").write_text(text)

    def run() -> None:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert main([*words, str(folder)]) in (0, 1)

    return run
