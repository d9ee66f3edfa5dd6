"""`serve` and `controller` are ready after discovery, act according to it, and work together."""

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import httpx
import jsonpatch
import pytest

from tests.harness.apiserver import object_review, pod_review
from tests.harness.fake_api import CRDS, LEASES, LIMIT_RANGES, PODS, QUOTAS, RAYCLUSTERS, FakeApi
from tests.harness.following import beside, eventually
from tests.harness.objects import a_pod
from tests.harness.publishing import a_cluster, counts
from tests.harness.scheduling_rules import PODGROUPS
from tests.harness.served import kubeconfig
from tests.harness.server import SECONDS
from webhook.api import names
from webhook.app import controller, serve
from webhook.app.runtime import supervise
from webhook.cli.main import main
from webhook.config.configuration import Installation, Listen, Serving, Settings, Tls, Topology
from webhook.controller.work_queue import QueueTiming
from webhook.groups.annotations import REPLICA, WORKER_GROUP

ASKED = {"", PODS, RAYCLUSTERS, LEASES, CRDS, QUOTAS, LIMIT_RANGES}
"""What the process that answers reviews reads or writes; the first is what is served."""


Object = dict[str, Any]
T = TypeVar("T")


async def polled(read: Callable[[], Awaitable[T]], over: Callable[[T], bool]) -> T:
    """Return the first answer that is the expected one."""
    async with asyncio.timeout(SECONDS):
        while not over(found := await read()):  # noqa: ASYNC110 - over a wire, nothing signals it
            await asyncio.sleep(0.01)
    return found


def patch_of(response: Object) -> list[Object]:
    """Return the operations of a response, empty without a patch."""
    operations: list[Object] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return operations


class Served(NamedTuple):
    """A service that answers: clients of its two listeners."""

    reviews: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def until_ready(self) -> None:
        await polled(lambda: self.admin.get("/readyz"), lambda answer: answer.is_success)

    async def post(self, path: str, review: Object) -> Object:
        response: Object = (await self.reviews.post(path, json=review)).json()["response"]
        return response

    async def admit(self) -> tuple[list[str], list[str]]:
        """Return the warnings for a worker pod, and the paths that its patch changes."""
        response = await self.post("/mutate", pod_review(a_pod("", group="tpu"), dry_run=True))
        return response.get("warnings", []), [each["path"] for each in patch_of(response)]

    async def check(self) -> list[str]:
        response = await self.post("/validate", object_review(a_cluster(WORKER_GROUP)))
        return [text for text in response.get("warnings", []) if "PodGroups" in text]


@asynccontextmanager
async def serving(
    api: FakeApi, directory: Path, installation: Installation, topology: Topology | None = None
) -> AsyncIterator[Served]:
    settings = configured(api, directory, installation)
    if topology is not None:
        settings = settings.model_copy(update={"topology": topology})
    service = serve.build(settings, io.BytesIO(), discovery=1)
    port, admin = service.bind()
    trust = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    async with (
        beside(supervise(service.runnables, service.drain)),
        httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}", verify=trust, timeout=60
        ) as reviews,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{admin}", timeout=60) as probes,
    ):
        yield Served(reviews, probes)


@asynccontextmanager
async def controlling(
    api: FakeApi, directory: Path, installation: Installation, log: io.BytesIO
) -> AsyncIterator[httpx.AsyncClient]:
    process = controller.build(
        configured(api, directory, installation), log, discovery=1, publishing=QueueTiming(resync=1)
    )
    (port,) = process.bind()
    async with (
        beside(supervise(process.runnables, process.drain)),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as probes,
    ):
        yield probes


def configured(api: FakeApi, directory: Path, installation: Installation) -> Settings:
    assert main(["certs", "issue", "--dir", str(directory)]) == 0
    return Settings(
        installation=installation, listen=Listen(host="127.0.0.1", admin_port=0),
        serving=Serving(port=0), tls=Tls(cert_dir=directory),
        kubeconfig=kubeconfig(directory, api.port))  # fmt: skip


INSTALLED = Installation(namespace="ray-webhook")
KEPT = Installation(namespace="ray-webhook", components=["events", "pod-groups"])


async def test_pods_get_a_scheduling_group_only_while_pod_groups_are_served(tmp_path: Path) -> None:
    async with FakeApi().serving() as api, serving(api, tmp_path, KEPT) as served:
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await served.until_ready()
        warnings, paths = await served.admit()
        assert "the API server serves no PodGroups" in warnings[0]
        assert "/spec/schedulingGroup" not in paths
        api.served = {"v1beta1"}
        _, paths = await polled(served.admit, lambda answer: answer[0] == [])
        assert "/spec/schedulingGroup" in paths
        assert await served.check() == []
        api.served = set()
        warned = await polled(served.check, bool)
        assert "the API server serves no PodGroups" in warned[0]
        warnings, paths = await served.admit()
        assert "the API server serves no PodGroups" in warnings[0]
        assert "/spec/schedulingGroup" not in paths


@pytest.mark.parametrize(("installation", "warned"), [(KEPT, False), (INSTALLED, True)])
async def test_serve_writes_no_pod_groups_and_warns_where_the_controller_does_not_either(
    tmp_path: Path, installation: Installation, warned: bool
) -> None:
    async with (
        FakeApi(served={"v1beta1"}).serving() as api,
        serving(api, tmp_path, installation) as served,
    ):
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await served.until_ready()
        await eventually(lambda: api.watching == 4)
        warnings, paths = await served.admit()
        assert ["until you create this PodGroup" in text for text in warnings] == [True] * warned
        assert "/spec/schedulingGroup" in paths
        metrics = (await served.admin.get("/metrics")).text
        assert ("ray_webhook_scheduling_enabled 1.0" in metrics) is not warned
        assert {request.resource for request in api.requests} == ASKED
        changes = {
            request.resource for request in api.requests if request.verb not in {"list", "watch"}
        }
        assert changes <= {LEASES}, "its claims, and nothing else"


async def test_the_controller_keeps_pod_groups_while_served_and_says_so(tmp_path: Path) -> None:
    log = io.BytesIO()

    async with FakeApi().serving() as api, controlling(api, tmp_path, KEPT, log) as probes:
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await polled(lambda: probes.get("/readyz"), lambda answer: answer.is_success)
        assert (await probes.get("/livez")).text == "ok"
        assert api.count("list", PODGROUPS) == 0
        api.served = {"v1beta1"}
        await eventually(lambda: counts(api) == {"ray-head": 0, "ray-worker-tpu": 8})
        assert (
            "[+] leader election: this process leads" in (await probes.get("/readyz?verbose")).text
        )
        metrics = (await probes.get("/metrics")).text
        assert "ray_webhook_leader 1.0" in metrics
        assert (
            'ray_webhook_scheduling_objects_total{resource="podgroups",verb="created"} 2.0'
            in metrics
        )
        assert "ray_webhook_scheduling_name_conflicts 0.0" in metrics
        assert 'ray_webhook_build_info{process="controller",version=' in metrics
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {line["process"] for line in lines} == {"controller"}


@pytest.mark.parametrize(("resource", "condition"), [
    (PODS, "worker pods"), (RAYCLUSTERS, "RayClusters"), ("", "discovery"),
    (LEASES, "leader election"),
])  # fmt: skip
async def test_the_controller_becomes_ready(resource: str, condition: str, tmp_path: Path) -> None:
    conditions = {"worker pods", "RayClusters", "discovery", "leader election", "not draining"}

    async def lines(probes: httpx.AsyncClient) -> dict[str, set[str]]:
        found = (await probes.get("/readyz")).text.splitlines()
        return {
            state: {line[4:] for line in found if line[:3] == state} for state in ("[+]", "[-]")
        }

    async def until(probes: httpx.AsyncClient, status: int, missing: set[str]) -> None:
        wanted = {"[+]": conditions - missing, "[-]": missing}
        await polled(lambda: lines(probes), lambda found: found == wanted)
        assert (await probes.get("/readyz")).status_code == status

    api = FakeApi(before=lambda request: 500 if request.resource == resource else 0)
    async with api.serving(), controlling(api, tmp_path, KEPT, io.BytesIO()) as probes:
        await until(probes, 503, {condition})
        api.before = lambda _: 0
        await until(probes, 200, set())


async def test_it_is_not_ready_before_it_knows_what_is_served(tmp_path: Path) -> None:
    async with FakeApi().serving() as api, serving(api, tmp_path, INSTALLED) as served:
        api.before = lambda request: 500 if request.resource == "" else 0
        await eventually(lambda: api.watching == 4)
        said = await served.admin.get("/readyz")
        assert said.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert "[-] discovery" in said.text
        assert "[+] worker pods" in said.text
        api.before = lambda _: 0
        await served.until_ready()


@pytest.mark.parametrize(("minor", "zones", "expected"), [
    ("35", "auto", True), ("37+", "auto", True), ("34", "auto", False), ("", "auto", False),
    ("37", "off", False), ("34", "on", True),
])  # fmt: skip
async def test_ray_receives_where_the_api_server_knows_it_unless_a_switch_says_otherwise(
    tmp_path: Path, minor: str, zones: Literal["auto", "on", "off"], expected: bool
) -> None:
    async with (
        FakeApi(minor=minor).serving() as api,
        serving(api, tmp_path, INSTALLED, Topology(zones=zones)) as served,
    ):
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await served.until_ready()
        review = pod_review(a_pod("", group="tpu"), dry_run=True)
        found = str(patch_of(await served.post("/mutate", review)))
        for name in (names.RAY_NODE_ZONE, names.RAY_NODE_REGION):
            assert (name in found) is expected


HOSTS, REPLICAS = 4, 2


async def create(api: FakeApi, served: Served, name: str) -> Object:
    pod = a_pod(name, group="tpu")
    for key in (names.LABEL_REPLICA_INDEX, names.LABEL_REPLICA_NAME, names.LABEL_HOST_INDEX):
        assert key not in pod["metadata"]["labels"]
    response = await served.post("/mutate", pod_review(pod))
    assert response["allowed"], response
    stored: Object = jsonpatch.apply_patch(pod, patch_of(response))
    api.put(PODS, stored)
    return stored


def identity(pod: Object) -> tuple[int, int]:
    labels = pod["metadata"]["labels"]
    return int(labels[names.LABEL_REPLICA_INDEX]), int(labels[names.LABEL_HOST_INDEX])


def named(pods: list[Object]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for pod in pods:
        name = pod["metadata"]["labels"][names.LABEL_REPLICA_NAME]
        found.setdefault(identity(pod)[0], set()).add(name)
    return found


async def test_two_processes_give_identities_and_the_controller_pod_groups(tmp_path: Path) -> None:
    async with FakeApi(served={"v1beta1"}).serving() as api, AsyncExitStack() as stack:
        api.put(RAYCLUSTERS, a_cluster(REPLICA))
        folders = [tmp_path / each for each in ("one", "other", "controller")]
        for folder in folders:
            folder.mkdir()
        processes = [
            await stack.enter_async_context(serving(api, folder, KEPT)) for folder in folders[:2]
        ]
        probes = await stack.enter_async_context(controlling(api, folders[2], KEPT, io.BytesIO()))
        for each in processes:
            await each.until_ready()
        pods = await asyncio.gather(
            *(
                create(api, processes[number % 2], f"ray-worker-tpu-{number}")
                for number in range(HOSTS * REPLICAS)
            )
        )
        wanted = {(replica, host) for replica in range(REPLICAS) for host in range(HOSTS)}
        assert {identity(pod) for pod in pods} == wanted
        assert [len(found) for found in named(pods).values()] == [1] * REPLICAS

        lost = pods[3]
        api.delete(PODS, lost["metadata"]["name"])
        count = f"ray_webhook_members {float(HOSTS * REPLICAS - 1)}"
        for each in processes:  # both have received the deletion
            await polled(partial(each.admin.get, "/metrics"), lambda found: count in found.text)
        again = await create(api, processes[0], "ray-worker-tpu-again")
        assert identity(again) == identity(lost)
        assert named([again]) == named([lost])

        asked = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}
        assert len(asked) == REPLICAS
        await eventually(lambda: asked <= {*api.objects(PODGROUPS)})
        ready = await probes.get("/readyz")
        assert ready.status_code == httpx.codes.OK, ready.text
