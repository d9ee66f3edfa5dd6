"""The accounts that manage PodGroups use all their rights; only the controller writes."""

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS
from tests.e2e.audit import AuditLog
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import (
    GROUPED,
    OPTED_OUT,
    counted,
    counts,
    discovered,
    grouped,
    pod_groups,
    unused,
    workloads,
)
from tests.e2e.installation import CONTROLLER, WEBHOOK, account_rights
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, IDENTITY, events_of, scale, wait_for_workers, worker_of, workers
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e


def test_each_account_uses_every_right_it_has_and_lacks_none(
    gated_plane: ControlPlane, publisher: Webhook, account_log: AuditLog
) -> None:
    live(gated_plane, publisher)
    for account in (WEBHOOK, CONTROLLER):
        expected = {200, 201, 404, 409}  # others delete and create in the meantime
        failed = [found for found in account_log.requests(account) if found.code not in expected]
        assert failed == [], account
        assert {found.code for found in account_log.discovery(account)} == discovered()
        used, rights = account_log.used(account), publisher.rights_of(account)
        assert used <= rights <= used | unused()
        assert (
            account_rights(gated_plane, account) - account_rights(gated_plane, "nobody") == rights
        )
    changes = {
        (resource, verb)
        for _, resource, verb in account_log.used(WEBHOOK)
        if verb not in {"get", "list", "watch"}
    }
    assert {resource for resource, _ in changes} <= {"leases"}, "its claims, and nothing else"
    assert {verb for _, _, verb in account_log.used(CONTROLLER)} >= {"create", "patch", "delete"}


def lose_identity(plane: ControlPlane, webhook: Webhook, namespace: str) -> None:
    """Remove the identity of a pod; the next controller continues with its event."""
    api = plane.api
    pod = workers(api, namespace, "one")[0]["metadata"]["name"]
    api.patch(PODS, pod, {"metadata": {"labels": dict.fromkeys(IDENTITY)}}, namespace)
    until(lambda: events_of(api, namespace, "PodWithoutIdentity"), "the RayCluster has its event")
    webhook.controller.kill()
    webhook.controller.start()
    until(
        lambda: events_of(api, namespace, "PodWithoutIdentity")[0].get("series"),
        "the next controller continues with it",
    )


def live(plane: ControlPlane, webhook: Webhook) -> None:
    """All that makes the webhook ask the API server for the sake of PodGroups."""
    api, namespace = plane.api, plane.namespace("audited-groups")
    with Operator(plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (1, HOSTS)}, GROUPED), namespace)
        until_equal(
            lambda: counts(api, namespace).get("one-worker-workers", 0), HOSTS, "a PodGroup"
        )
        wait_for_workers(api, namespace, HOSTS)
        webhook.kill()
        webhook.start()
        scale(api, "one", namespace, 2)
        until_equal(
            lambda: counts(api, namespace).get("one-worker-workers", 0),
            counted(2 * HOSTS, HOSTS),
            "the count follows",
        )
        wait_for_workers(api, namespace, 2 * HOSTS)
        lose_identity(plane, webhook, namespace)
        # Beyond what is desired
        api.create(PODS, worker_of(api.get(RAY_CLUSTERS, "one", namespace)), namespace)
        api.patch(RAY_CLUSTERS, "one", {"metadata": {"annotations": OPTED_OUT}}, namespace)
        until(
            lambda: not [*pod_groups(api, namespace), *workloads(api, namespace)],
            "PodGroups and Workload go",
        )
    plane.delete_ray_cluster("one", namespace)
