"""A policy refuses Ray objects that KubeRay cannot decode, each of which stops it for all."""

import re
from collections.abc import Iterator

import pytest

from tests.e2e.api import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, ApiError, Json
from tests.e2e.control_plane import UNFINALIZED, ControlPlane
from tests.e2e.installation import applied, rendered
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, slices, wait_for_workers
from tests.e2e.waiting import until
from tests.harness.ray_objects import ClusterBuilder, a_cluster, a_job, a_service

pytestmark = pytest.mark.e2e

HUGE = 3_000_000_000
TEXT = "more than 32 bits|broken or huge exponent|format int32"
"""What the policy says; from Kubernetes 1.36 on, the CRD says of some numbers before it can."""


@pytest.fixture(scope="module")
def policy(control_plane: ControlPlane) -> Iterator[None]:
    """The policy of the base, alone: there is no webhook."""
    found = [each for each in rendered() if each["kind"].startswith("ValidatingAdmissionPolicy")]
    with applied(control_plane, found):
        namespace = control_plane.namespace("decodable-ready")
        until(lambda: refused(control_plane, probed("ready", HUGE), namespace), "the policy")
        yield


def probed(name: str, port: object) -> Json:
    probe = {"httpGet": {"path": "/", "port": port}}
    return a_cluster(name).group().container(readinessProbe=probe).build()


def refused(plane: ControlPlane, cluster: Json, namespace: str) -> bool:
    return bool(re.search(TEXT, plane.api.refusal(RAY_CLUSTERS, cluster, namespace)))


def broken() -> ClusterBuilder:
    return a_cluster("broken").group()


def asking(amount: object) -> Json:
    """A RayCluster whose workers ask for this much memory, and which asks to be left alone."""
    cluster = broken().container(resources={"limits": {"memory": amount}})
    return cluster.label("admission.ray.io/ignore", "true").build()


SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
INIT = {"name": "init", "image": "busybox", "resources": {"requests": {"cpu": "1e1.5"}}}
DIVISOR = {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1e.5"}}

PORTS = {"ports": [{"name": "a", "port": 1, "targetPort": HUGE}]}
MODE = {"name": "v", "secret": {"secretName": "s", "defaultMode": HUGE}}

BROKEN = {
    "fraction": asking("1e1.5"),
    "init container": broken().pod(initContainers=[INIT]).build(),
    "overhead": broken().pod(overhead={"cpu": "1e1.5"}).build(),
    "size limit": broken().pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1e1.5"}}]).build(),
    "divisor": broken().container(env=[{"name": "A", "valueFrom": DIVISOR}]).build(),
    "autoscaler": broken().autoscaled(resources={"limits": {"cpu": "1e1.5"}}).build(),
    "mode": broken().pod(volumes=[MODE]).build(),
    "spread": broken().pod(topologySpreadConstraints=[SPREAD | {"maxSkew": HUGE}]).build(),
    "probe": probed("broken", HUGE),
    "negative": probed("broken", -HUGE),
    "float": probed("broken", 3e9),
    "tcp": broken().container(startupProbe={"tcpSocket": {"port": HUGE}}).build(),
    "hook": broken().container(lifecycle={"preStop": {"httpGet": {"port": HUGE}}}).build(),
    "head service": broken().head(headService={"spec": PORTS}).build(),
}


def test_one_bad_object_stops_kuberay_and_the_policy_lets_go_of_it(
    control_plane: ControlPlane, request: pytest.FixtureRequest
) -> None:
    bad, good = control_plane.namespace("decodable-bad"), control_plane.namespace("decodable-fine")
    stuck = probed("bad", HUGE)
    stuck["metadata"]["finalizers"] = ["example.com/keep"]
    # The API server takes a moment to forget the policy of an earlier installation.
    until(lambda: not refused(control_plane, stuck, bad), "no policy keeps the RayCluster out")
    control_plane.api.create(RAY_CLUSTERS, stuck, bad)
    request.getfixturevalue("policy")
    control_plane.api.create(RAY_CLUSTERS, slices("good", 1), good)
    with Operator(control_plane) as operator:
        until(lambda: "cannot unmarshal number 3000000000" in operator.tail(2000), "the error")
        control_plane.api.delete(RAY_CLUSTERS, "bad", bad)
        control_plane.api.patch(RAY_CLUSTERS, "bad", UNFINALIZED, bad)
        wait_for_workers(control_plane.api, good, HOSTS, "good")


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("name", BROKEN)
def test_the_policy_refuses_what_kuberay_cannot_decode(
    control_plane: ControlPlane, name: str
) -> None:
    namespace = control_plane.namespace("decodable-" + name.replace(" ", "-"))
    with pytest.raises(ApiError, match=TEXT):
        control_plane.api.create(RAY_CLUSTERS, BROKEN[name], namespace)


@pytest.mark.usefixtures("policy")
def test_the_policy_reads_the_clusters_of_jobs_and_services(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("decodable-owners")
    job, service = a_job().build(), a_service().build()
    job["spec"]["rayClusterSpec"]["headGroupSpec"]["headService"] = {"spec": PORTS}
    service["spec"]["serveService"] = {"spec": PORTS}
    for resource, value in ((RAY_JOBS, job), (RAY_SERVICES, service)):
        with pytest.raises(ApiError, match=TEXT):
            control_plane.api.create(resource, value, namespace)


@pytest.mark.usefixtures("policy")
def test_the_policy_lets_good_objects_pass(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("decodable-good")
    good = [
        *(probed("good", port) for port in (8080, "http", "3000000000")),
        *(asking(amount) for amount in (2**30, "2Ei", "1e+09", "1E")),
    ]
    for cluster in good:
        assert control_plane.api.refusal(RAY_CLUSTERS, cluster, namespace) == ""
    control_plane.api.create(RAY_JOBS, a_job().build(), namespace)
    control_plane.api.create(RAY_SERVICES, a_service().build(), namespace)
