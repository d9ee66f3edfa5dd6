"""Replicas that lose a host are replaced completely, by the webhook or by KubeRay."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec
import pytest

from tests.e2e import needs
from tests.e2e.api import (
    CONFIG_MAPS,
    EVENTS,
    NODES,
    PODS,
    RAY_CLUSTERS,
    Api,
    ApiError,
    Json,
    Objects,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import CONTROLLER, NAMESPACE, WITH_CONTROLLER, applied
from tests.e2e.kubelet import Kubelet
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    of_replica,
    replica_names,
    scale,
    slices,
    uids,
    wait_for_workers,
    with_identity,
    workers,
)
from tests.e2e.scheduling.nodes import bind, present
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from tests.manifests.render import kustomize
from webhook.api import names
from webhook.api.formats import mark
from webhook.controller.repair.plan import EMPTY, LIMITS, LOST, SPENT, Record, RepairHost
from webhook.groups.identity import HostIdentity

pytestmark = pytest.mark.e2e

COMPONENT = "repair.enabled=true"
RECORDS = CONTROLLER
ASKED = {names.ANNOTATION_REPAIR: "true"}
RESTARTED = {names.ANNOTATION_RESTART: names.RESTART_REPLICA}


@pytest.fixture(scope="module")
def repair(control_plane: ControlPlane) -> Iterator[Webhook]:
    with (
        applied(control_plane, kustomize("manifests/policies/tenants")),
        Webhook(control_plane, [WITH_CONTROLLER, COMPONENT]) as running,
    ):
        yield running


@pytest.fixture(params=[False, True], ids=["our identities", "identities of KubeRay"])
def indexing(request: pytest.FixtureRequest) -> bool:
    if request.param:
        needs.MULTI_HOST_INDEXING.ask()
    return bool(request.param)


@dataclass
class Story:
    """A RayCluster `one` in a namespace, whose replicas were complete."""

    api: Api
    namespace: str
    operator: Operator
    kubelet: Kubelet
    before: Objects = field(default_factory=list)

    @property
    def workers(self) -> Objects:
        return workers(self.api, self.namespace)

    @property
    def cluster(self) -> Json:
        return self.api.get(RAY_CLUSTERS, "one", self.namespace)

    @property
    def replicas(self) -> int:
        """What the user wrote."""
        found: int = self.cluster["spec"]["workerGroupSpecs"][0]["replicas"]
        return found

    @property
    def record(self) -> Record:
        try:
            data = self.api.get(CONFIG_MAPS, RECORDS, NAMESPACE).get("data") or {}
        except ApiError:
            return EMPTY
        text = data.get(self.cluster["metadata"]["uid"], "{}")
        return next(iter(msgspec.json.decode(text, type=dict[str, Record]).values()), EMPTY)

    def sealed(self, replicas: int) -> Objects:
        """Return the workers, once they are those of so many whole replicas, each recorded with
        just these hosts.
        """

        def found() -> Objects:
            pods, whole, by_name = self.workers, self.record.whole, dict[str, set[str]]()
            for pod in pods:
                name = pod["metadata"]["labels"][names.LABEL_REPLICA_NAME]
                by_name.setdefault(name, set()).add(host_id(pod["metadata"]["uid"]))
            recorded = all(
                len(hosts) == HOSTS and whole.get(name, {}).keys() == hosts
                for name, hosts in by_name.items()
            )
            return pods if recorded and len(pods) == replicas * HOSTS else []

        return until(found, f"{replicas} whole replicas")

    def delete(self, *pods: Json) -> None:
        """Delete pods by hand; KubeRay may take the second one first."""
        for pod in pods:
            with suppress(ApiError):
                self.api.delete(PODS, name_of(pod), self.namespace, grace=0)

    def gone(self, pods: Objects) -> None:
        until(lambda: not uids(pods) & uids(self.workers), "the replica goes")

    def replaced(self, replica: int) -> None:
        """Return once another replica is whole in place of one, and the others are as before."""
        lost = of_replica(self.before, replica)
        self.gone(lost)
        after = self.sealed(len(self.before) // HOSTS)
        assert uids(self.before) - uids(lost) <= uids(after)


@contextmanager
def running(
    plane: ControlPlane,
    namespace: str,
    *,
    indexing: bool = False,
    replicas: int = 2,
    annotations: Json = ASKED,
) -> Iterator[Story]:
    api, namespace = plane.api, plane.namespace(f"{namespace}-{indexing}".lower())
    cluster = slices("one", replicas)
    cluster["metadata"]["annotations"] = annotations
    with Operator(plane, multi_host_indexing=indexing) as operator, Kubelet(api, namespace) as own:
        story = Story(api, namespace, operator, own)
        api.create(RAY_CLUSTERS, cluster, namespace)
        story.before = story.sealed(replicas)
        yield story
    plane.delete_ray_cluster("one", namespace)


def host_id(uid: str) -> str:
    return RepairHost("", uid, "", HostIdentity(0, 0, ""), ours=True).id


def name_of(pod: Json) -> str:
    found: str = pod["metadata"]["name"]
    return found


def deleted(repair: Webhook, namespace: str) -> list[Json]:
    text = f"deleted pod {namespace}/"
    return [line for line in repair.controller.lines() if text in str(line.get("message", ""))]


def waiting(repair: Webhook, why: str) -> float:
    return repair.controller.sample("ray_webhook_repair_waiting_replicas", {"why": why})


def notes(api: Api, namespace: str) -> list[str]:
    return [each["note"] for each in api.list(EVENTS, namespace) if "replaced" in each["note"]]


def lose(story: Story) -> None:
    story.delete(with_identity(story.before, 0, 2))


def fail(story: Story) -> None:
    story.kubelet.fail(with_identity(story.before, 0, 2))


def drain(story: Story) -> None:
    """Evict two hosts, as `kubectl drain` does: the second may be gone with its replica already."""
    api, namespace, pods = story.api, story.namespace, of_replica(story.before, 0)[1:3]
    with present(api, [namespace]):
        for pod in pods:
            bind(api, name_of(pod), namespace, namespace)
        api.patch(NODES, namespace, {"spec": {"unschedulable": True}})
        for pod in pods:
            meta = {"name": name_of(pod), "namespace": namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
            try:
                api.request("POST", PODS.path(namespace, name_of(pod), "eviction"), body)
            except ApiError as error:
                if error.code != 404:
                    raise


@pytest.mark.parametrize("harm", [lose, fail, drain])
def test_a_replica_that_lost_hosts_is_replaced_and_the_others_stay(
    control_plane: ControlPlane, repair: Webhook, harm: Callable[[Story], None], *, indexing: bool
) -> None:
    with running(control_plane, f"lost-{harm.__name__}", indexing=indexing) as story:
        harm(story)
        story.replaced(0)
        assert story.replicas == 2
        if indexing:
            assert (notes(story.api, story.namespace), deleted(repair, story.namespace)) == ([], [])
        else:
            (lost,) = replica_names(of_replica(story.before, 0))
            until(
                lambda: any(
                    LOST in note and lost in note for note in notes(story.api, story.namespace)
                ),
                "the RayCluster has its event",
            )


def test_a_node_that_is_gone_takes_whole_replicas(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    with running(control_plane, "gone", indexing=indexing) as story:
        api, namespace, lost = story.api, story.namespace, with_identity(story.before, 1, 2)
        node = story.kubelet.lost = namespace
        api.create(NODES, {"metadata": {"name": node}})
        bind(api, name_of(lost), namespace, node)
        disrupt(api, lost, namespace, "DeletionByTaintManager")
        api.delete(PODS, name_of(lost), namespace)  # it stays Terminating
        if not indexing:  # KubeRay waits until the pod is gone
            story.gone(of_replica(story.before, 1))
        assert api.get(PODS, name_of(lost), namespace)["metadata"]["deletionTimestamp"]
        api.delete(NODES, node)
        disrupt(api, lost, namespace, "DeletionByPodGC", phase="Failed")
        story.delete(lost)
        story.replaced(1)
        assert story.replicas == 2


def disrupt(api: Api, pod: Json, namespace: str, reason: str, **status: str) -> None:
    """Write why Kubernetes deletes a pod, as it does when its Node is not heard of, or gone."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    api.set_status(PODS, name_of(pod), {**status, "conditions": [condition]}, namespace)


def test_a_crash_loop_is_replaced_as_often_as_the_budget_allows_all_controllers(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    asked = ASKED | RESTARTED
    with running(
        control_plane, "crashing", indexing=indexing, replicas=1, annotations=asked
    ) as story:
        for number in range(LIMITS.per_hour):
            pods = story.sealed(1)
            if number == 1:
                repair.controller.kill()
                repair.controller.start()
            story.kubelet.crash(pods[1], number + 1)
            story.gone(pods)
        last = story.sealed(1)
        story.kubelet.crash(last[1], 1)
        until(lambda: waiting(repair, SPENT), "the budget is spent")
        repair.controller.kill()
        repair.controller.start()
        story.kubelet.crash(last[1], 2)
        until(lambda: waiting(repair, SPENT), "another controller knows it")
        assert uids(story.workers) == uids(last)
        assert len(story.record.replaced) == LIMITS.per_hour
        assert story.replicas == 1


def test_a_controller_that_ends_between_mark_and_deletion_goes_on_where_it_stopped(
    control_plane: ControlPlane, repair: Webhook
) -> None:
    with running(control_plane, "marked", replicas=1) as story:
        before = story.before
        repair.controller.kill()
        begin(story)
        story.delete(with_identity(before, 0, 3))
        newcomers = until(
            lambda: [pod for pod in story.workers if pod["metadata"]["uid"] not in uids(before)],
            "KubeRay replaces the pod",
        )
        assert not replica_names(newcomers) & replica_names(before)

        repair.controller.start()
        story.gone(before)
        assert replica_names(story.sealed(1)) == replica_names(newcomers)


def begin(story: Story) -> None:
    """Record that the replica is deleted, and mark the first of its pods."""
    api, cluster = story.api, story.cluster
    (group,) = cluster["spec"]["workerGroupSpecs"]
    (name,) = replica_names(story.before)
    going = msgspec.structs.replace(story.record, deleting={name: LOST})
    text = msgspec.json.encode({group["groupName"]: going}).decode()
    api.patch(CONFIG_MAPS, RECORDS, {"data": {cluster["metadata"]["uid"]: text}}, NAMESPACE)
    pod = with_identity(story.before, 0, 1)
    label = {names.LABEL_MARKED_FOR_DELETION: mark(LOST, pod["metadata"]["uid"])}
    api.patch(PODS, name_of(pod), {"metadata": {"labels": label}}, story.namespace)


def test_while_kuberay_is_down_what_is_left_of_a_replica_goes_and_it_comes_back_whole(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    with running(control_plane, "kuberay-down", indexing=indexing) as story:
        story.operator.stop()
        story.delete(with_identity(story.before, 1, 0))
        if not indexing:
            story.gone(of_replica(story.before, 1))
        story.operator.start()
        story.replaced(1)


@pytest.mark.parametrize("named", [True, False], ids=["of a host", "while a host is lost"])
def test_a_scale_down_leaves_whole_replicas(
    control_plane: ControlPlane, repair: Webhook, *, named: bool, indexing: bool
) -> None:
    assert repair.controller.ready
    with running(control_plane, f"scaled-down-{named}", indexing=indexing) as story:
        host = with_identity(story.before, 1, 2)
        if named:
            scale(story.api, "one", story.namespace, 1, [host])
            wait_for_workers(story.api, story.namespace, HOSTS)
        else:
            story.delete(host)
        scale(story.api, "one", story.namespace, 1)
        story.sealed(1)
        assert story.replicas == 1


def test_a_container_that_restarts_takes_its_replica_with_it(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    asked = RESTARTED | (ASKED if indexing else {})
    with running(control_plane, "restarted", indexing=indexing, annotations=asked) as story:
        story.kubelet.restart(with_identity(story.before, 1, 3))
        story.replaced(1)
        assert 0 < len(deleted(repair, story.namespace)) <= HOSTS
