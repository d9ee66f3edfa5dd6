"""The service account of the manifests may do what the process does, and nothing else, as the API server's audit log tells."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS
from tests.e2e.audit import Asked, AuditLog
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import NATIVE, OPTED_OUT, counts, grouped, pod_groups, workloads
from tests.e2e.installation import Right, account_may, asked, rights
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, in_seat, scale, seats, slices, wait_for_workers, whole, worker_of
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    "pods",
    "pods/log",
    "pods/exec",
    "secrets",
    "configmaps",
    "nodes",
    "rayclusters.ray.io",
    "rayclusters.ray.io/status",
    "rayclusters.ray.io/finalizers",
    "workloads.scheduling.k8s.io",
    "podgroups.scheduling.k8s.io",
    "podgroups.scheduling.k8s.io/status",
)


class Audited(NamedTuple):
    """A control plane that writes down what the account asks."""

    plane: ControlPlane
    log: AuditLog


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """A control plane of its own: the account of the other one is lent to other modes of installation."""
    log = AuditLog(tmp_path_factory.mktemp("audit"))
    with ControlPlane(api_server_flags=log.flags) as plane:
        yield Audited(plane, log)


def test_the_account_uses_every_right_it_has_and_lacks_none(audited: Audited) -> None:
    plane = audited.plane
    with Webhook(plane) as webhook:
        live(plane, webhook)
        granted, may = rights_of(webhook), allowed(plane)

    assert refused(audited.log) == []
    assert audited.log.used() == granted
    assert may == set(map(asked, granted))


def test_the_account_of_a_publisher_too(gated_plane: ControlPlane, publisher: Webhook, account_log: AuditLog) -> None:
    live_in_groups(gated_plane, publisher)
    granted = rights_of(publisher)
    assert refused(account_log) == []
    assert account_log.used() == granted
    assert allowed(gated_plane) == set(map(asked, granted))


def refused(log: AuditLog) -> list[Asked]:
    """The requests that failed otherwise than by what others had done meanwhile."""
    return [found for found in log.requests() if found.code >= 400 and found.code not in {404, 409}]


def rights_of(webhook: Webhook) -> set[Right]:
    """What the manifests grant, all of it in ClusterRoles."""
    roles = [found for found in webhook.manifests if found["kind"] in {"Role", "ClusterRole"}]
    assert {found["kind"] for found in roles} == {"ClusterRole"}
    return {right for found in roles for right in rights(found)}


def allowed(plane: ControlPlane) -> set[tuple[str, str]]:
    """What the API server says that the account may do."""
    return {(verb, resource) for verb in VERBS for resource in RESOURCES if account_may(plane, verb, resource)}


def live(plane: ControlPlane, webhook: Webhook) -> None:
    """All that makes the webhook ask the API server: starts, events, live reads of a RayCluster and of a group.

    Not a restart of the API server: it answers 403 and 429 to everybody until its own caches are filled.
    """
    api, namespace = plane.api, plane.namespace("audited")
    fresh = api.create(RAY_CLUSTERS, slices("fresh", 1), namespace)
    assert seats([api.create(PODS, worker_of(fresh), namespace)]) == [(0, 0)]
    with Operator(plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, slices("one", 2), namespace)
        pods = wait_for_workers(api, namespace, 2 * HOSTS, "one")
        api.delete(PODS, in_seat(pods, 1, 3)["metadata"]["name"], namespace, grace=0)
        wait_for_workers(api, namespace, 2 * HOSTS, "one")
        webhook.kill()
        webhook.start()
        scale(api, "one", namespace, 3)
        assert seats(wait_for_workers(api, namespace, 3 * HOSTS, "one")) == whole(0, 1, 2)
    full = api.get(RAY_CLUSTERS, "one", namespace)
    assert seats([api.create(PODS, worker_of(full), namespace)]) == [(3, 0)]  # beyond what is desired: the group is read live
    for name in ("fresh", "one"):
        plane.delete_ray_cluster(name, namespace)


def live_in_groups(plane: ControlPlane, webhook: Webhook) -> None:
    """All that makes the webhook ask the API server for the sake of PodGroups, which come, change, and go."""
    api, namespace = plane.api, plane.namespace("audited-groups")
    with Operator(plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (1, HOSTS)}, NATIVE), namespace)
        until_equal(lambda: counts(api, namespace).get("one-worker-workers", 0), HOSTS, "a PodGroup")
        wait_for_workers(api, namespace, HOSTS)
        webhook.kill()
        webhook.start()
        scale(api, "one", namespace, 2)
        until_equal(lambda: counts(api, namespace).get("one-worker-workers", 0), 2 * HOSTS, "the count follows")
        wait_for_workers(api, namespace, 2 * HOSTS)
        api.create(PODS, worker_of(api.get(RAY_CLUSTERS, "one", namespace)), namespace)  # beyond what is desired
        api.patch(RAY_CLUSTERS, "one", {"metadata": {"annotations": OPTED_OUT}}, namespace)
        until(lambda: not [*pod_groups(api, namespace), *workloads(api, namespace)], "PodGroups and Workload go")
    plane.delete_ray_cluster("one", namespace)
