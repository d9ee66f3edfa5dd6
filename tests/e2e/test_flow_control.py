"""The API server admits few concurrent writes: creations of pods under review must not block the
reservations of their identities.
"""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.api import CLUSTER_ROLE_BINDINGS, PODS, RAY_CLUSTERS, Api, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import USER
from tests.e2e.rays import HOSTS, slices, worker_of, workers, wrong_identities
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

GROUPS = ["system:serviceaccounts", "system:serviceaccounts:ray-system", "system:authenticated"]
IN_FLIGHT = ("--max-mutating-requests-inflight=4", "--max-requests-inflight=8")
AT_ONCE, REPLICAS = 24, 30
DISPATCHED = r'^apiserver_flowcontrol_dispatched_requests_total{.*flow_schema="([^"]+)".*} (\S+)$'


def kuberay(plane: ControlPlane) -> Api:
    """The API as KubeRay has it in a cluster: a service account, held to flow control."""
    subject = {"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "kuberay"}, "roleRef": role, "subjects": [subject]}
    plane.api.create(CLUSTER_ROLE_BINDINGS, binding)
    return Api.of_kubeconfig(plane.kubeconfig(USER, GROUPS))


def create_all(api: Api, cluster: Json, namespace: str) -> list[str]:
    """Create all workers, many at once; return what was said of those that were refused."""
    pod = worker_of(cluster)

    def create(_: int) -> str:
        try:
            api.create(PODS, pod, namespace)
        except ApiError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [*filter(None, pool.map(create, range(REPLICAS * HOSTS)))]


def dispatched(plane: ControlPlane) -> Counter[str]:
    """How many requests were let through, by FlowSchema."""
    found: Counter[str] = Counter()
    exposition = plane.api.request("GET", "/metrics").body["message"]
    for schema, count in re.findall(DISPATCHED, exposition, re.MULTILINE):
        found[schema] += int(float(count))
    return found


def test_creations_that_wait_for_claims_do_not_keep_claims_waiting() -> None:
    with (
        ControlPlane(api_server_flags=IN_FLIGHT) as plane,
        Webhook(plane, ["flowSchema.enabled=true"]),
    ):
        namespace = plane.namespace("crowded")
        api = kuberay(plane)
        until(lambda: api.ok(PODS.path(namespace)), "the authorizer knows KubeRay's rights")
        cluster = plane.api.create(RAY_CLUSTERS, slices("crowded", REPLICAS), namespace)
        before = dispatched(plane)

        assert create_all(api, cluster, namespace) == []

        assert wrong_identities(workers(plane.api, namespace), cluster) == []
        through = dispatched(plane) - before
        assert through["ray-webhook"] >= 1, "the claims have a FlowSchema of their own"
        assert through["service-accounts"] >= REPLICAS * HOSTS, "KubeRay has that of all accounts"
