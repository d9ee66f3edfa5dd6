"""A pod group publisher with a fake API server, and its RayClusters."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.harness.fake_api import RAYCLUSTERS, FakeApi, Object
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.objects import a_raycluster
from tests.harness.scheduling_rules import PODGROUPS, WORKLOADS
from webhook.api import names
from webhook.cache.cluster_cache import Observing
from webhook.controller.group_index import GroupIndex
from webhook.controller.podgroups.podgroup_reconciler import (
    SCHEDULING_GROUPS,
    PodGroupReconciler,
    Subject,
)
from webhook.controller.work_queue import QueueTiming
from webhook.kubeclient.timeouts import Clock
from webhook.objects.object_cache import ObjectCache as Objects

PACE = QueueTiming(resync=0.08, tick=0.01, first_delay=0.01, longest_delay=0.05)
WRITES = ("create", "patch", "delete")


@dataclass
class Publishing:
    """A publisher that runs, and what it looks at."""

    publisher: PodGroupReconciler
    index: GroupIndex
    rests: "Rests"


class Rests:
    """Counts how often the publisher has looked what is wanted."""

    def __init__(self) -> None:
        self.count = 0

    async def sleep(self, seconds: float) -> None:
        self.count += 1
        await asyncio.sleep(seconds)

    async def more(self, number: int) -> None:
        """Wait until it has looked so often again."""
        until = self.count + number
        await eventually(lambda: self.count >= until)


@asynccontextmanager
async def publishing(
    api: FakeApi,
    version: str | None = "v1beta1",
    namespaces: Sequence[str] = (),
    timing: QueueTiming = PACE,
    subject: Subject = SCHEDULING_GROUPS,
) -> AsyncIterator[Publishing]:
    connection, objects, rests = client_of(plain(api)), Objects(), Rests()
    index = GroupIndex(objects)
    observing = Observing(connection, objects, namespaces, QUICK, other_kinds=())
    publisher = PodGroupReconciler(observing, index, timing, Clock(sleep=rests.sleep), subject)
    publisher.serve(version)
    async with connection, beside(observing.run()), beside(publisher.queue.run()):
        yield Publishing(publisher, index, rests)


def a_cluster(
    granularity: str,
    name: str = "ray",
    *,
    namespace: str = "default",
    **spec: Any,  # noqa: ANN401
) -> Object:
    """Return a RayCluster with two replicas of four hosts that may ask for a gang."""
    built = a_raycluster(name, namespace=namespace)
    if granularity:
        built["metadata"]["annotations"][names.ANNOTATION_SCHEDULING_GROUP] = granularity
    built["spec"] |= {"workerGroupSpecs": groups_of(2), **spec}
    return built


def groups_of(replicas: int, hosts: int = 4, priority: str = "") -> list[Object]:
    template = {"spec": {"priorityClassName": priority}} if priority else {}
    group = {
        "groupName": "tpu", "numOfHosts": hosts, "replicas": replicas, "minReplicas": 0,
        "maxReplicas": 100,
    }  # fmt: skip
    return [{**group, "template": template}]


def counts(api: FakeApi) -> dict[str, int]:
    """Return the minimal count of each PodGroup that is not being deleted, 0 for a basic one."""
    return {
        name: found["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0)
        for name, found in sorted(api.objects(PODGROUPS).items())
        if "deletionTimestamp" not in found["metadata"]
    }


def templates(api: FakeApi, workload: str = "ray.gang") -> dict[str, int]:
    """Return the minimal count of each template of a Workload, nothing when there is none."""
    found = api.objects(WORKLOADS).get(workload, {"spec": {"podGroupTemplates": []}})
    return {
        each["name"]: each["schedulingPolicy"].get("gang", {}).get("minCount", 0)
        for each in found["spec"]["podGroupTemplates"]
    }


def writes(api: FakeApi) -> list[tuple[str, str]]:
    """Return the verb and resource of every request that changed something, or meant to."""
    return [(request.verb, request.resource) for request in api.requests if request.verb in WRITES]


def lists(api: FakeApi) -> int:
    """Return how many lists of PodGroups were of one RayCluster or of one name."""
    return sum(
        request.resource == PODGROUPS
        and request.verb == "list"
        and request.query.get("labelSelector", "") != ALL
        for request in api.requests
    )


def resyncs(api: FakeApi, resource: str = PODGROUPS) -> int:
    """Return how many lists of all our objects there were."""
    return sum(
        request.resource == resource and request.query.get("labelSelector", "") == ALL
        for request in api.requests
    )


async def more_resyncs(api: FakeApi, resource: str = PODGROUPS) -> None:
    """Wait until everything was looked at again, from now on."""
    until = resyncs(api, resource) + 3
    await eventually(lambda: resyncs(api, resource) >= until)


async def nothing_but_resyncs(api: FakeApi) -> None:
    """Assert that further resyncs list nothing else, after some for what is still to be done."""
    await more_resyncs(api)
    quiet = lists(api)
    await more_resyncs(api)
    assert lists(api) == quiet


ALL = "app.kubernetes.io/managed-by=ray-webhook"


def edit(api: FakeApi, resource: str, name: str, change: Callable[[Object], object]) -> None:
    """Change an object as somebody else would."""
    found = api.objects(resource)[name]
    copy: Object = {**found, "metadata": {**found["metadata"]}, "spec": {**found["spec"]}}
    change(copy)
    api.put(resource, copy)


def opted_out(api: FakeApi, name: str = "ray") -> None:
    edit(api, RAYCLUSTERS, name, lambda found: found["metadata"].update(annotations={}))
