"""The audit log of the API server: the service account has exactly the rights that the process
uses, and the log has the identity of each pod and the rules with findings.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, ApiError
from tests.e2e.audit import AuditLog
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import account_rights
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    identities,
    scale,
    slices,
    wait_for_workers,
    whole,
    with_identity,
    worker_of,
)
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e


CONFLICT = 409


class Audited(NamedTuple):
    """A control plane that writes down what the account asks."""

    plane: ControlPlane
    log: AuditLog
    webhook: Webhook


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """A control plane of its own, since other modes of installation use that account too."""
    log = AuditLog(tmp_path_factory.mktemp("audit"))
    with ControlPlane(api_server_flags=log.flags) as plane, Webhook(plane) as webhook:
        yield Audited(plane, log, webhook)


def test_the_account_uses_every_right_it_has_and_lacks_none(audited: Audited) -> None:
    plane, _, webhook = audited
    live(plane, webhook)
    webhook.kill()
    webhook.start()  # a new process sweeps a minute later
    until(lambda: audited.log.used() == webhook.rights, "it has used every right")

    # A reservation whose table another process wrote in the meantime is read, and written again.
    # Where a write takes too long it is given up, and the read may find none.
    asked = {(*found.right[1:], found.code) for found in audited.log.requests()}
    unusual = {each for each in asked if each[2] not in {200, 201}}
    writes = {("leases", verb, CONFLICT) for verb in ("create", "update", "patch", "delete")}
    assert unusual <= {("leases", "get", 404), *writes}
    assert {found.code for found in audited.log.discovery()} == {200, 404}  # never forbidden
    assert account_rights(plane) - account_rights(plane, "nobody") == webhook.rights


def test_identities_and_the_rules_that_refuse_are_in_the_audit_log(audited: Audited) -> None:
    api, namespace = audited.plane.api, audited.plane.namespace("annotated")
    cluster = api.create(RAY_CLUSTERS, slices("one", 1), namespace)
    for _ in range(2):
        api.create(PODS, worker_of(cluster), namespace)
    pods = audited.log.annotations(namespace, "pods")
    assert [pod["pods.admission.ray.io/identity"] for pod in pods] == [
        "tpu-group/0/0",
        "tpu-group/0/1",
    ]
    broken = slices("broken", 1)
    broken["spec"]["workerGroupSpecs"] *= 2
    with pytest.raises(ApiError):
        api.create(RAY_CLUSTERS, broken, namespace)
    *_, refused = audited.log.annotations(namespace, "rayclusters")
    assert "group-name-duplicate" in refused["clusters.admission.ray.io/rules"].split(", ")
    audited.plane.delete_ray_cluster("one", namespace)


def live(plane: ControlPlane, webhook: Webhook) -> None:
    """All that makes the webhook ask; an API server that restarts answers 403 and 429 at first."""
    api, namespace = plane.api, plane.namespace("audited")
    fresh = api.create(RAY_CLUSTERS, slices("fresh", 1), namespace)
    assert identities([api.create(PODS, worker_of(fresh), namespace)]) == [(0, 0)]
    with Operator(plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, slices("one", 2), namespace)
        pods = wait_for_workers(api, namespace, 2 * HOSTS, "one")
        api.delete(PODS, with_identity(pods, 1, 3)["metadata"]["name"], namespace, grace=0)
        wait_for_workers(api, namespace, 2 * HOSTS, "one")
        webhook.kill()
        webhook.start()
        scale(api, "one", namespace, 3)
        assert identities(wait_for_workers(api, namespace, 3 * HOSTS, "one")) == whole(0, 1, 2)
    full = api.get(RAY_CLUSTERS, "one", namespace)
    # Beyond what is desired: the group is read live
    assert identities([api.create(PODS, worker_of(full), namespace)]) == [(3, 0)]
    for name in ("fresh", "one"):
        plane.delete_ray_cluster(name, namespace)
