"""Headless services of RayClusters whose single hosts need names, over loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.builders import ClusterBuilder, a_cluster
from tests.kubeclient.fake_api import (
    PODS,
    RAYCLUSTERS,
    SERVICES,
    FakeApi,
    Object,
)
from tests.kubeclient.following import (
    QUICK,
    beside,
    eventually,
    plain,
)
from tests.kubeclient.objects import a_pod
from webhook.api import names
from webhook.cache.cluster_cache import Observing
from webhook.controller.group_index import GroupIndex
from webhook.controller.headless_services import CONFLICT_SECONDS, HeadlessServices
from webhook.diagnostics.object_cache import ObjectCache as Objects
from webhook.groups.identity import HostIdentity
from webhook.kubeclient.client import Api
from webhook.kubeclient.timeouts import QueueTiming


def a_unit() -> ClusterBuilder:
    """Return a RayCluster whose group of single hosts is a unit."""
    cluster = a_cluster("c").group("g", replicas=4)
    return cluster.annotated(names.ANNOTATION_UNIT, "worker-group")


@asynccontextmanager
async def keeping(
    api: FakeApi,
    again: float = 600.0,
    delay: float = 0.01,
    clock: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[None]:
    """Create services at a fake API server, until the end of the block."""
    connection, objects = Api(plain(api)), Objects()
    observing = Observing(connection, objects, (), QUICK, other_kinds=())
    timing = QueueTiming(resync=again, tick=0.01, first_delay=delay, longest_delay=delay)
    services = HeadlessServices(observing, GroupIndex(objects), timing, clock)
    async with connection, beside(observing.run()), beside(services.queue.run()):
        yield


def requested(api: FakeApi, least: int) -> bool:
    """Return whether so many creations of services were requested."""
    return api.count("create", SERVICES) >= least


def created(api: FakeApi) -> list[Object]:
    """Return the services that exist."""
    return list(api.objects(SERVICES).values())


async def test_a_unit_of_single_hosts_has_the_service_that_kuberay_would_create(
    api: FakeApi,
) -> None:
    api.put(RAYCLUSTERS, a_unit().build())
    async with keeping(api):
        await eventually(lambda: created(api))
    (service,) = created(api)
    assert service["metadata"]["name"] == "c-headless"
    assert service["metadata"]["namespace"] == "team"
    assert service["metadata"]["labels"] == {names.LABEL_HEADLESS_SERVICE: "c"}
    (owner,) = service["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "RayCluster",
        "uid-of-c",
        True,
    )
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_CLUSTER: "c", names.LABEL_NODE_TYPE: "worker"},
    }


async def test_a_service_that_was_deleted_is_created_again(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, a_unit().build())
    async with keeping(api, again=0.02):
        await eventually(lambda: created(api))
        await eventually(lambda: api.count("create", SERVICES) > 2)
        api.delete(SERVICES, "c-headless", "team")
        await eventually(lambda: created(api))


async def test_a_recreated_raycluster_has_a_service_once_that_of_its_predecessor_is_deleted(
    api: FakeApi,
) -> None:
    predecessor = {"metadata": {"name": "c-headless", "namespace": "team"}}
    api.put(SERVICES, predecessor)
    api.put(RAYCLUSTERS, a_unit().build())
    async with keeping(api):
        await eventually(lambda: api.count("create", SERVICES))
        api.delete(SERVICES, "c-headless", "team")
        await eventually(lambda: created(api))
    (service,) = created(api)
    (owner,) = service["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-of-c"


async def test_pods_that_start_before_the_service_is_deleted_do_not_use_up_the_attempts(
    api: FakeApi,
) -> None:
    api.put(SERVICES, {"metadata": {"name": "c-headless", "namespace": "team"}})
    api.put(RAYCLUSTERS, a_unit().build())
    async with keeping(api, delay=0.5):
        await eventually(lambda: api.count("create", SERVICES))
        for index in range(8):
            before = api.count("create", SERVICES)
            identity = HostIdentity(index, 0, "")
            api.put(PODS, a_pod(f"p{index}", identity, cluster="c", group="g", namespace="team"))
            await eventually(partial(requested, api, before + 1))
        api.delete(SERVICES, "c-headless", "team")
        await eventually(lambda: created(api))


async def test_a_service_of_another_owner_stays_and_is_not_requested_for_ever(api: FakeApi) -> None:
    own = {"metadata": {"name": "c-headless", "namespace": "team"}}
    api.put(SERVICES, own)
    api.put(RAYCLUSTERS, a_unit().build())
    now = 0.0
    async with keeping(api, clock=lambda: now):
        await eventually(partial(requested, api, 3))
        now = CONFLICT_SECONDS
        for number in range(5):
            requests = api.count("create", SERVICES)
            other = a_cluster(f"other{number}").group("g")
            other.annotated(names.ANNOTATION_HOST_NAMES, "true")
            api.put(RAYCLUSTERS, other.build())
            await eventually(lambda: len(created(api)) == number + 2)  # noqa: B023 - at once
    assert api.count("create", SERVICES) == requests + 1


@pytest.mark.parametrize(
    "cluster",
    [
        a_cluster("c").group("g", replicas=4),
        a_unit().group("several", hosts=2),
        a_unit().labelled(names.LABEL_IGNORE, "true"),
    ],
    ids=["nothing asks for names", "KubeRay creates it", "left alone"],
)
async def test_no_other_raycluster_gets_one(api: FakeApi, cluster: ClusterBuilder) -> None:
    api.put(RAYCLUSTERS, cluster.build())
    other = a_cluster("other").group("g").annotated(names.ANNOTATION_HOST_NAMES, "true")
    async with keeping(api):
        await eventually(lambda: api.count("list", RAYCLUSTERS))
        api.put(RAYCLUSTERS, other.build())
        await eventually(lambda: created(api))
    assert [each["metadata"]["name"] for each in created(api)] == ["other-headless"]


async def test_a_failure_is_tried_again_and_keeps_no_other(api: FakeApi) -> None:
    refused = iter([403, 500])
    api.before = lambda request: (
        next(refused, 0) if (request.verb, request.resource) == ("create", SERVICES) else 0
    )
    api.put(RAYCLUSTERS, a_unit().build())
    async with keeping(api):
        await eventually(lambda: created(api))
    assert api.count("create", SERVICES) == 3
