"""The service account of the manifests may do what the process does, and nothing else, as the API server's audit log tells."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import ACCOUNT, Object, account_may
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, in_seat, scale, seats, slices, wait_for_workers, whole, worker_of
from tests.e2e.webhook_process import Webhook
from webhook.cluster.discovery import VERSIONS
from webhook.kube.names import SCHEDULING_GROUP

pytestmark = pytest.mark.e2e

Right = tuple[str, str, str]
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = ("pods", "pods/log", "pods/exec", "secrets", "configmaps", "nodes", "rayclusters.ray.io", "rayclusters.ray.io/status")


class Audited(NamedTuple):
    """A control plane that writes down what the account asks."""

    plane: ControlPlane
    log: Path

    def entries(self) -> list[dict[str, Any]]:
        """The requests of the account that were answered."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """A control plane of its own: the account of the other one is lent to other modes of installation."""
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.json", folder / "audit.log"
    rules = [{"level": "Metadata", "users": [ACCOUNT], "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
    with ControlPlane(api_server_flags=flags) as plane:
        yield Audited(plane, log)


def test_the_account_uses_every_right_it_has_and_lacks_none(audited: Audited) -> None:
    plane = audited.plane
    with Webhook(plane) as webhook:
        live(plane, webhook)
        granted = {right for found in webhook.manifests if found["kind"] == "ClusterRole" for right in rights(found)}
        bound = {found["kind"] for found in webhook.manifests if found["kind"] in {"Role", "ClusterRole"}}
        may = {(verb, resource) for verb in VERBS for resource in RESOURCES if account_may(plane, verb, resource)}

    entries = audited.entries()
    discovery = [entry for entry in entries if asks_what_is_served(entry)]
    requests = [entry for entry in entries if not asks_what_is_served(entry)]
    assert [entry for entry in requests if entry["responseStatus"]["code"] != 200] == []
    assert {used(entry) for entry in requests} == granted
    assert {entry["responseStatus"]["code"] for entry in discovery} == {404}  # answered, not forbidden: every account may ask
    assert bound == {"ClusterRole"}
    assert may == {(verb, f"{resource}.{group}" if group else resource) for group, resource, verb in granted}


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


def asks_what_is_served(entry: dict[str, Any]) -> bool:
    """Whether a request asks for the versions of an API, which needs no right of our own."""
    return entry["requestURI"].partition("?")[0] in {f"/apis/{SCHEDULING_GROUP}/{version}" for version in VERSIONS}


def rights(role: Object) -> set[Right]:
    """What a role grants: group, resource and verb."""
    assert all(not set(rule) - {"apiGroups", "resources", "verbs"} for rule in role["rules"])
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(entry: dict[str, Any]) -> Right:
    """What a request needed; one that is for no resource needs its path."""
    reference = entry.get("objectRef")
    if reference is None:
        return "", entry["requestURI"], entry["verb"]
    resource = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
    return reference.get("apiGroup", ""), resource, entry["verb"]
