"""A queued RayCluster and Kueue's topology-aware scheduling: admitted, gated, ungated and bound, on
Nodes that consist of labels only.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest
import yaml

from tests.e2e import needs
from tests.e2e.api import (
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    Api,
    ApiError,
    Json,
    Objects,
    Resource,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import apply
from tests.e2e.kuberay import Operator
from tests.e2e.kueue import CLUSTER_QUEUES, KUEUE_WORKLOADS, VERSION, Kueue
from tests.e2e.rays import example, names_of, wait_for_workers, workers
from tests.e2e.scheduling.component import controllers, scheduler
from tests.e2e.scheduling.nodes import bound, present
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of
from webhook.api import names

pytestmark = pytest.mark.e2e

NAMESPACE = "queued"
QUEUE = "tpus"
HOSTS = 2
LEVEL = "cloud.google.com/gke-tpu-partition-2x2x2-id"
"""The level of the topology whose every domain is a slice of two hosts."""

HOST = "kubernetes.io/hostname"
TPUS = {names.NODE_TPU_ACCELERATOR: "tpu7x"}
DOMAINS = ("a", "b")
SERVE = "applications: [{import_path: app:app}]"
POD_SET = "kueue.x-k8s.io/podset"
"""The label by which Kueue finds the pods that it lets go."""


@dataclass
class Setup:
    """A control plane with Kueue, and KubeRay as a story wants it."""

    plane: ControlPlane
    webhook: Webhook
    kueue: Kueue
    operator: Operator

    @property
    def api(self) -> Api:
        return self.plane.api

    def gated(self, cluster: Json) -> Objects:
        """The workers of an admitted RayCluster; Kueue is away, so that they keep its gate."""
        name = cluster["metadata"]["name"]
        self.api.create(RAY_CLUSTERS, cluster, NAMESPACE)
        until(lambda: self.let_go(name), "Kueue admits the RayCluster")
        self.kueue.stop()
        self.operator.start()
        return wait_for_workers(self.api, NAMESPACE, 2 * HOSTS, name)

    def let_go(self, name: str) -> bool:
        found: bool = self.api.get(RAY_CLUSTERS, name, NAMESPACE)["spec"]["suspend"]
        return not found

    def bound(self) -> int:
        return len(bound(workers(self.api, NAMESPACE)))

    def whole_again(self) -> bool:
        """Ends the pods that KubeRay deletes, as kubelet does; whether all workers have a Node."""
        for pod in self.api.list(PODS, NAMESPACE):
            if "deletionTimestamp" in pod["metadata"]:
                with suppress(ApiError):  # it is gone
                    self.api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace=0)
        return self.bound() == 2 * HOSTS

    def domains(self) -> dict[tuple[str, int], set[str]]:
        found: dict[tuple[str, int], set[str]] = {}
        for pod in workers(self.api, NAMESPACE):
            held = identity_of(pod)
            assert held is not None
            domain = pod["spec"]["nodeName"].split("-")[1]
            found.setdefault((held.group, held.replica), set()).add(domain)
        return found

    def clear(self) -> None:
        self.operator.stop()
        for resource in (RAY_JOBS, RAY_SERVICES):
            self.api.delete_all(resource, NAMESPACE)
        for cluster in self.api.list(RAY_CLUSTERS, NAMESPACE):
            self.plane.delete_ray_cluster(cluster["metadata"]["name"], NAMESPACE)
        until(lambda: not self.api.list(KUEUE_WORKLOADS, NAMESPACE), "the quota is free again")


@pytest.fixture(scope="module")
def queued_plane() -> Iterator[tuple[ControlPlane, Webhook, Kueue]]:
    """A control plane of its own, as Kueue's webhooks are asked about all RayClusters, with the
    queue and the Nodes of a slice for each of two replicas. Each Node is a node pool.
    """
    needs.OTHERS.ask()
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        for part in (controllers(plane), scheduler(plane)):
            stack.enter_context(part)
        webhook = stack.enter_context(Webhook(plane))
        kueue = stack.enter_context(Kueue(plane))
        plane.namespace(NAMESPACE)
        for name in (f"host-{domain}-{host}" for domain in DOMAINS for host in range(HOSTS)):
            labels = {**TPUS, LEVEL: name.split("-")[1], HOST: name, names.NODE_POOL: name}
            room = {names.RESOURCE_TPU: "4", "cpu": "12", "memory": "64Gi"}  # a head beside any
            stack.enter_context(present(plane.api, [name], labels, room))
        until(lambda: is_taken(plane, queue()), "the API server trusts Kueue's webhooks")
        apply(plane, queue())
        yield plane, webhook, kueue


def is_taken(plane: ControlPlane, objects: Sequence[Json]) -> bool:
    flags = ("--server-side", "--dry-run=server", "-f", "-")
    return plane.kubectl("apply", *flags, stdin=yaml.safe_dump_all(objects)).returncode == 0


@pytest.fixture(params=["gate on"])
def setup(
    request: pytest.FixtureRequest, queued_plane: tuple[ControlPlane, Webhook, Kueue]
) -> Iterator[Setup]:
    plane, webhook, kueue = queued_plane
    operator = Operator(plane, multi_host_indexing=request.param == "gate on")
    found = Setup(plane, webhook, kueue, operator)
    yield found
    found.clear()


both_gates = pytest.mark.parametrize("setup", ["gate off", "gate on"], indirect=True)


def queue() -> Sequence[Json]:
    quota = {"cpu": "1k", "memory": "10Ti", names.RESOURCE_TPU: "1k"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    flavor = {"name": QUEUE, "resources": resources}
    specs = {
        "Topology": {"levels": [{"nodeLabel": LEVEL}, {"nodeLabel": HOST}]},
        "ResourceFlavor": {"nodeLabels": TPUS, "topologyName": QUEUE},
        "ClusterQueue": {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [*quota], "flavors": [flavor]}],
        },
        "LocalQueue": {"clusterQueue": QUEUE},
    }
    place = {"LocalQueue": {"namespace": NAMESPACE}}
    return [
        {
            "apiVersion": VERSION,
            "kind": kind,
            "metadata": {"name": QUEUE, **place.get(kind, {})},
            "spec": spec,
        }
        for kind, spec in specs.items()
    ]


def slices(name: str, *replicas: int, **annotations: str) -> Json:
    cluster = example("tpu-dynamic-slice-kueue")
    cluster["metadata"] |= {"name": name, "annotations": annotations}
    (pattern, *_) = cluster["spec"]["workerGroupSpecs"]
    written = {
        names.ANNOTATION_SLICE_TOPOLOGY: "2x2x2",
        names.KUEUE_SLICE_REQUIRED_TOPOLOGY: LEVEL,
        names.KUEUE_SLICE_SIZE: str(HOSTS),
    }
    template = {**pattern["template"], "metadata": {"annotations": written}}
    cluster["spec"]["workerGroupSpecs"] = [
        {
            **pattern, "groupName": f"slices-{index}", "replicas": count, "minReplicas": count,
            "maxReplicas": count, "numOfHosts": HOSTS, "template": template,
        }
        for index, count in enumerate(replicas)
    ]  # fmt: skip
    return cluster


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


@both_gates
def test_a_group_for_each_replica_keeps_its_hosts_and_their_replacements_in_one_domain(
    setup: Setup,
) -> None:
    pods = setup.gated(slices("apart", 1, 1))
    for pod in setup.api.list(PODS, NAMESPACE):
        assert gates(pod) == [names.KUEUE_GATE_TOPOLOGY]
        assert "affinity" not in pod["spec"]
    identities = {pod["metadata"]["name"]: identity_of(pod) for pod in pods}
    for pod in pods:
        assert pod["metadata"]["annotations"][names.KUEUE_SLICE_REQUIRED_TOPOLOGY] == LEVEL
        assert pod["metadata"]["annotations"][names.KUEUE_SLICE_SIZE] == str(HOSTS)

    setup.kueue.start()
    until_equal(setup.bound, 2 * HOSTS, "all workers are bound")
    apart = setup.domains()
    assert [len(domains) for domains in apart.values()] == [1, 1]
    assert set.union(*apart.values()) == set(DOMAINS)
    after = workers(setup.api, NAMESPACE)
    assert {pod["metadata"]["name"]: identity_of(pod) for pod in after} == identities
    until(
        lambda: not any(gates(pod) for pod in setup.api.list(PODS, NAMESPACE)),
        "the head may be bound too",
    )

    gone = pods[0]["metadata"]["name"]
    setup.api.delete(PODS, gone, NAMESPACE, grace=0)
    until(lambda: gone not in names_of(workers(setup.api, NAMESPACE)), "the host is gone")
    until(setup.whole_again, "all workers are bound again")
    assert setup.domains() == apart


@both_gates
def test_hosts_of_two_replicas_of_one_group_change_places_where_kueue_counts_them_so(
    setup: Setup,
) -> None:
    later = [
        pod["metadata"]["name"]
        for pod in setup.gated(slices("mixed", 2))
        if (held := identity_of(pod)) and held.host == 1
    ]
    for name in later:
        setup.api.patch(PODS, name, {"metadata": {"labels": {POD_SET: None}}}, NAMESPACE)
    setup.kueue.start()
    until_equal(setup.bound, 2, "host 0 of both replicas is bound")
    for name in later:
        setup.api.patch(PODS, name, {"metadata": {"labels": {POD_SET: "slices-0"}}}, NAMESPACE)
    until_equal(setup.bound, 2 * HOSTS, "all workers are bound")
    assert setup.domains() == {("slices-0", replica): set(DOMAINS) for replica in (0, 1)}

    code, cluster_report = setup.plane.read_status(NAMESPACE)
    assert code == 1
    (shown,) = cluster_report["clusters"]
    split = {each["replica"] for each in shown["problems"] if each["id"] == "replica-split"}
    assert split == {0, 1}


def test_affinity_that_is_forced_on_rules_out_the_nodes_that_kueue_chose(setup: Setup) -> None:
    forced = {names.ANNOTATION_TOPOLOGY_KEY: names.NODE_POOL}
    pods = setup.gated(slices("forced", 1, 1, **forced))
    assert all("podAffinity" in pod["spec"]["affinity"] for pod in pods)
    setup.kueue.start()
    until_equal(lambda: sorted(refusals(setup)), ["", "", "affinity", "affinity"], "half wait")
    assert not any(gates(pod) for pod in workers(setup.api, NAMESPACE))
    assert setup.bound() == 2


def refusals(setup: Setup) -> list[str]:
    """Of each worker, what the scheduler has against the Node that Kueue chose: it has a Node, or
    affinity stands in its way, or something else.
    """
    found = []
    for pod in workers(setup.api, NAMESPACE):
        conditions = pod.get("status", {}).get("conditions") or ()
        said = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
        refused = "pod affinity rules" in "".join(said)
        found.append("" if pod["spec"].get("nodeName") else "affinity" if refused else "waits")
    return found


def test_what_kueue_writes_when_it_admits_or_stops_a_raycluster_is_no_news(setup: Setup) -> None:
    setup.gated(slices("stopped", 1, 1))
    setup.kueue.start()
    until_equal(setup.bound, 2 * HOSTS, "all workers are bound")
    setup.api.patch(CLUSTER_QUEUES, QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})
    until(lambda: not setup.let_go("stopped"), "Kueue stops the RayCluster")
    (group, _) = setup.api.get(RAY_CLUSTERS, "stopped", NAMESPACE)["spec"]["workerGroupSpecs"]
    assert "schedulingGates" not in group["template"]["spec"]
    setup.api.patch(CLUSTER_QUEUES, QUEUE, {"spec": {"stopPolicy": "None"}})
    until(lambda: setup.let_go("stopped"), "Kueue admits it again")

    # Three writes of Kueue, and more where one had to begin again
    reviews = until(lambda: at_least(4, setup.webhook, "RayCluster", "stopped"), "the log has all")
    operations = [review["operation"] for review in reviews]
    assert operations[0] == "CREATE"
    assert set(operations[1:]) == {"UPDATE"}
    assert not any(review.get("warnings") for review in reviews[1:])


def at_least(count: int, webhook: Webhook, kind: str, name: str) -> Objects:
    """The reviews of an object in the log, once there are so many: it is written behind them."""
    found = [review for review in webhook.admissions(kind) if review["name"] == name]
    return found if len(found) >= count else []


@pytest.mark.parametrize(("resource", "kind", "key", "part"), [
    (
        RAY_JOBS,
        "RayJob",
        "rayClusterSpec",
        {"entrypoint": "true", "shutdownAfterJobFinishes": True},
    ),
    (RAY_SERVICES, "RayService", "rayClusterConfig", {"serveConfigV2": SERVE}),
])  # fmt: skip
def test_what_kueue_writes_when_it_admits_a_job_or_service_is_no_news(
    setup: Setup, resource: Resource, kind: str, key: str, part: Json
) -> None:
    body = slices("whole", 1, 1) | {"kind": kind}
    body["spec"] = {key: body["spec"], **part}
    setup.api.create(resource, body, NAMESPACE)
    until(lambda: ungated(setup.api, resource, key) == [], "Kueue admits it")
    reviews = until(lambda: at_least(2, setup.webhook, kind, "whole"), "the log has both writes")
    assert [review["operation"] for review in reviews][:2] == ["CREATE", "UPDATE"]
    assert {review["operation"] for review in reviews} == {"CREATE", "UPDATE"}
    assert {review["verdict"] for review in reviews} == {"allowed"}
    assert not any(each.get("warnings") for each in reviews if each["operation"] == "UPDATE")


def ungated(api: Api, resource: Resource, key: str) -> list[str]:
    groups = api.get(resource, "whole", NAMESPACE)["spec"][key]["workerGroupSpecs"]
    return [
        group["groupName"]
        for group in groups
        if not any(
            gate["name"] == names.KUEUE_GATE_TOPOLOGY
            for gate in group["template"]["spec"].get("schedulingGates", ())
        )
    ]
