"""The two entries for pods, in a real API server: one of them is called for each pod, and it is the
same one after a later webhook has changed the pod.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import needs
from tests.e2e.api import EVENTS, PODS, RAY_CLUSTERS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import rendered
from tests.e2e.kuberay import Operator
from tests.e2e.process import free_port
from tests.e2e.rays import example
from tests.e2e.stub_webhook import StubWebhook, pod_entry, registered
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from tests.manifests.entries import corpus, needs_webhook
from tests.manifests.render import Object, one
from webhook.api import names
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

pytestmark = pytest.mark.e2e

ENTRIES = ("pods.admission.ray.io", "optional-pods.admission.ray.io")
NEEDED, OPTIONAL = ENTRIES
SHAPES = "shapes"
LATER = "zz-sidecar"
"""A configuration that is called after all others."""

HEAD, WORKER = {names.LABEL_NODE_TYPE: "head"}, {names.LABEL_NODE_TYPE: "worker"}
INDEXED = WORKER | {names.LABEL_REPLICA_INDEX: "0"}
LABELS: Sequence[Json] = (
    {}, {"labels": None}, {"labels": {}}, {"labels": {"app": "other"}}, {"labels": HEAD},
    {"labels": HEAD | {names.LABEL_HOST_INDEX: "0"}}, {"labels": WORKER}, {"labels": INDEXED},
    {"labels": INDEXED | {names.LABEL_HOST_INDEX: "0"}},
    {"labels": WORKER | {names.LABEL_HOST_INDEX: "0"}},
)  # fmt: skip
ANNOTATIONS: Sequence[Json] = (
    {},
    {"annotations": None},
    {"annotations": {}},
    {"annotations": {names.ANNOTATION_HOLDER: "uid"}},
)
CPU, TPU = {"cpu": "1"}, {names.RESOURCE_TPU: 4}
RESOURCES: Sequence[Json] = (
    {}, {"resources": None}, {"resources": {}}, {"resources": {"requests": None, "limits": None}},
    {"resources": {"limits": {}}}, {"resources": {"requests": CPU}}, {"resources": {"limits": CPU}},
    {"resources": {"requests": CPU, "limits": TPU}},
    {"resources": {"requests": {names.RESOURCE_TPU: "4"}}},
    {"resources": {"requests": None, "limits": TPU | CPU}},
)  # fmt: skip


def container(number: int, fields: Json) -> Json:
    return {"name": f"c{number}", "image": "ray", **fields}


def specs() -> Iterator[Json]:
    """Yield specs of pods: lists of containers that are absent, null or empty, and containers with
    each form of resources, as the only container, as an init container, and as one of sixty.
    """
    yield from ({}, {"containers": None}, {"containers": []}, {"initContainers": None})
    for fields in RESOURCES:
        one_container = [container(0, fields)]
        plain = [container(1, {})]
        yield {"containers": one_container}
        yield {"containers": one_container, "initContainers": None}
        yield {"containers": plain, "initContainers": one_container}
        sixty = [container(number, {}) for number in range(60)]
        yield {"containers": [*sixty, container(60, fields)]}


def shapes() -> Iterator[Json]:
    for labels, annotations, spec in itertools.product(LABELS, ANNOTATIONS, specs()):
        yield {"metadata": {"name": "p", **labels, **annotations}, "spec": spec}
    for manifest in corpus():
        for indexed in (True, False):
            for pod in expand(manifest.document, as_cluster(manifest), indexed=indexed):
                pod["metadata"] = {
                    "name": "p",
                    "labels": pod["metadata"]["labels"],
                    "annotations": pod["metadata"]["annotations"],
                }
                yield pod


def pod_entries() -> list[Object]:
    configuration = one(rendered(), "MutatingWebhookConfiguration")
    return [entry for entry in configuration["webhooks"] if entry["name"] in ENTRIES]


def test_each_shape_of_a_pod_is_seen_by_exactly_one_entry(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Without a selector of objects, so that pods without labels are seen as well."""
    api, namespace = control_plane.api, control_plane.namespace(SHAPES)
    with StubWebhook(tmp_path) as stub:
        entries = [
            {**entry, "clientConfig": stub.client_config(entry["name"]), "failurePolicy": "Fail"}
            for entry in pod_entries()
        ]
        for entry in entries:
            entry.update(objectSelector={}, timeoutSeconds=30)
        with registered(control_plane, SHAPES, entries):
            first = next(shapes())
            until(lambda: api.refusal(PODS, first, namespace) and stub.reviews, "it is called")
            count = 0
            for pod in shapes():
                stub.reviews.clear()
                refusal = api.refusal(PODS, pod, namespace)
                assert "webhook" not in refusal, (pod, refusal)
                called = [path for path, _ in stub.reviews]
                assert called == [NEEDED if needs_webhook(pod) else OPTIONAL], pod
                count += 1
            assert count > 1000


def sidecar(pod: Json) -> list[Json]:
    if any(each["name"] == "sidecar" for each in pod["spec"]["containers"]):
        return []
    value = {"name": "sidecar", "image": "sidecar"}
    return [{"op": "add", "path": "/spec/containers/-", "value": value}]


def cpu_cluster() -> Json:
    cluster = example("tpu-three-replicas")
    cluster["metadata"]["name"] = "cpus"
    (group,) = cluster["spec"]["workerGroupSpecs"]
    group |= {"replicas": 2, "numOfHosts": 1}
    spec = group["template"]["spec"]
    spec.pop("nodeSelector", None)
    for each in spec["containers"]:
        each["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    return cluster


@contextmanager
def called_later(plane: ControlPlane, stub: StubWebhook, namespace: str) -> Iterator[None]:
    """Have another webhook called for the pods of a namespace, after that of the chart."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    client = stub.client_config("later")
    later = pod_entry("later.example.com", client, namespaceSelector=selector)
    other = {"metadata": {"name": "other"}, "spec": {"containers": [container(0, {})]}}
    with registered(plane, LATER, [later]):
        until(
            lambda: plane.api.refusal(PODS, other, namespace) or stub.reviews,
            "the later webhook is called",
        )
        yield


def pods_of(plane: ControlPlane, namespace: str, cluster: Json, *, indexed: bool) -> list[Json]:
    stored = plane.api.create(RAY_CLUSTERS, cluster, namespace)
    return list(expand(stored, as_cluster(Manifest("stored", stored)), indexed=indexed))


def remove_all(plane: ControlPlane, namespace: str) -> None:
    plane.delete_pods(namespace)
    for cluster in plane.api.list(RAY_CLUSTERS, namespace):
        plane.api.delete(RAY_CLUSTERS, cluster["metadata"]["name"], namespace)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_pod_is_reviewed_once_and_once_more_after_a_later_webhook_has_changed_it(
    control_plane: ControlPlane, tmp_path: Path, *, indexed: bool
) -> None:
    name = f"reviewed-{indexed}".lower()
    single, double = (control_plane.namespace(f"{name}-{each}") for each in ("alone", "beside"))
    with Webhook(control_plane) as webhook, StubWebhook(tmp_path, sidecar) as stub:

        def create_all(namespace: str) -> int:
            pods = [
                pod
                for cluster in (cpu_cluster(), example("tpu-three-replicas"))
                for pod in pods_of(control_plane, namespace, cluster, indexed=indexed)
            ]
            assert {needs_webhook(pod) for pod in pods} == {True, False}
            for pod in pods:
                control_plane.api.create(PODS, pod, namespace)
            return len(pods)

        number = create_all(single)
        with called_later(control_plane, stub, double):
            assert create_all(double) == number
        webhook.stop()  # which writes its log
        reviews = Counter(line["namespace"] for line in webhook.admissions())
        assert (reviews[single], reviews[double]) == (number, 2 * number)
    for namespace in (single, double):
        remove_all(control_plane, namespace)


def tpus(pod: Json) -> list[Json]:
    if pod["metadata"].get("labels", {}).get(names.LABEL_NODE_TYPE) != "worker":
        return []
    path = "/spec/containers/0/resources/limits/google.com~1tpu"
    return [{"op": "add", "path": path, "value": "4"}]


def test_a_worker_that_a_later_webhook_gives_tpus_is_not_reviewed_again(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """As docs/concepts.md says: the API server calls only entries again that it has called."""
    namespace = control_plane.namespace("tpus-later")
    with Webhook(control_plane) as webhook, StubWebhook(tmp_path, tpus) as stub:
        _, *workers = pods_of(control_plane, namespace, cpu_cluster(), indexed=True)
        with called_later(control_plane, stub, namespace):
            stored = [control_plane.api.create(PODS, worker, namespace) for worker in workers]
        assert all(map(needs_webhook, stored))
        webhook.stop()
        reviews = [line for line in webhook.admissions() if line["namespace"] == namespace]
        assert len(reviews) == len(workers)
    remove_all(control_plane, namespace)


def test_kuberay_creates_no_pod_of_the_groups_after_one_that_waits_for_the_webhook(
    control_plane: ControlPlane,
) -> None:
    """As docs/concepts.md says, with the policies of the manifests and nothing that answers.
    Without the labels of KubeRay 1.6, workers of CPU groups need the webhook too.
    """
    namespace = control_plane.namespace("groups-wait")
    cluster, (tpus,) = cpu_cluster(), example("tpu-three-replicas")["spec"]["workerGroupSpecs"]
    (cpus,) = cluster["spec"]["workerGroupSpecs"]
    cluster["spec"]["workerGroupSpecs"] = [
        {**group, "groupName": name, "replicas": 1, "minReplicas": 1}
        for name, group in (("before", cpus), ("tpus", tpus), ("after", cpus))
    ]
    nobody = {"url": f"https://127.0.0.1:{free_port()}/"}
    entries = [{**entry, "clientConfig": nobody} for entry in pod_entries()]

    def count_workers() -> Counter[str]:
        pods = control_plane.api.list(PODS, namespace, "ray.io/node-type=worker")
        return Counter(pod["metadata"]["labels"][names.LABEL_GROUP] for pod in pods)

    def refusals() -> list[Json]:
        events = control_plane.api.list(EVENTS, namespace)
        return [event for event in events if event["reason"] == "FailedToCreateWorkerPod"]

    with registered(control_plane, "groups-wait", entries):
        worker = {
            "metadata": {"name": "p", "labels": WORKER},
            "spec": {"containers": [container(0, {})]},
        }
        until(lambda: control_plane.api.refusal(PODS, worker, namespace), "the entries are asked")
        with Operator(control_plane):
            control_plane.api.create(RAY_CLUSTERS, cluster, namespace)
            until(refusals, "a worker of TPUs is refused")
            indexed = needs.MULTI_HOST_INDEXING.is_met
            assert count_workers() == ({"before": 1} if indexed else {})
            assert [*control_plane.api.list(PODS, namespace, "ray.io/node-type=head")]
    with Operator(control_plane):
        until(lambda: count_workers() == {"before": 1, "tpus": 4, "after": 1}, "all workers exist")
