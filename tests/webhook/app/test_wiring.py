"""The complete product: two `serve` processes and a `controller` with one API server."""

import asyncio
import io
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx
import jsonpatch

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi
from tests.harness.following import eventually
from tests.harness.objects import a_pod
from tests.harness.publishing import a_cluster
from tests.harness.scheduling_rules import PODGROUPS
from tests.webhook.app.test_scheduling import (
    KEPT,
    Object,
    Served,
    controlling,
    patch_of,
    polled,
    serving,
)
from webhook.api import names
from webhook.groups.annotations import REPLICA

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
