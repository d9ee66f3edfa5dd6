"""Replicas that lose a host are replaced completely, by the webhook or by KubeRay."""

from collections.abc import Iterator
from contextlib import suppress

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
SECONDS = 300
RECORDS = CONTROLLER


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


def asking(name: str, replicas: int, **annotations: str) -> Json:
    cluster = slices(name, replicas)
    asked = annotations or {names.ANNOTATION_REPAIR: "true"}
    cluster["metadata"]["annotations"] = asked
    return cluster


def sealed(api: Api, namespace: str, count: int) -> Objects:

    def found() -> Objects:
        pods = workers(api, namespace)
        return pods if len(pods) == count and is_whole(api, namespace, pods) else []

    return until(found, f"{count} workers of whole replicas", SECONDS)


def is_whole(api: Api, namespace: str, pods: Objects) -> bool:
    """Whether the pods are those of whole replicas, each recorded with just these hosts."""
    by_name: dict[str, set[str]] = {}
    for pod in pods:
        name = pod["metadata"]["labels"][names.LABEL_REPLICA_NAME]
        by_name.setdefault(name, set()).add(pod["metadata"]["uid"])
    whole = record(api, namespace).whole
    return all(
        len(uids) == HOSTS and whole.get(name, {}).keys() == {*map(host_id, uids)}
        for name, uids in by_name.items()
    )


def host_id(uid: str) -> str:
    return RepairHost("", uid, "", HostIdentity(0, 0, ""), ours=True).id


def record(api: Api, namespace: str) -> Record:
    uid = api.get(RAY_CLUSTERS, "one", namespace)["metadata"]["uid"]
    try:
        data = api.get(CONFIG_MAPS, RECORDS, NAMESPACE).get("data") or {}
    except ApiError:
        return EMPTY
    groups = msgspec.json.decode(data.get(uid, "{}"), type=dict[str, Record])
    return next(iter(groups.values()), EMPTY)


def uids(pods: Objects) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def name_of(pod: Json) -> str:
    found: str = pod["metadata"]["name"]
    return found


def delete(api: Api, namespace: str, *pods: Json) -> None:
    """Delete pods by hand; KubeRay may take the second one first."""
    for pod in pods:
        with suppress(ApiError):
            api.delete(PODS, name_of(pod), namespace, grace=0)


def gone(api: Api, namespace: str, pods: Objects) -> None:
    until(lambda: not uids(pods) & uids(workers(api, namespace)), "the replica goes", SECONDS)


def replaced(api: Api, namespace: str, before: Objects, replica: int) -> Objects:
    """The workers, once another replica is whole in place of one, and the others are as before."""
    lost = of_replica(before, replica)
    gone(api, namespace, lost)
    after = sealed(api, namespace, len(before))
    assert uids(before) - uids(lost) <= uids(after)
    return after


def replicas_of(api: Api, name: str, namespace: str) -> int:
    """What the user wrote."""
    group = api.get(RAY_CLUSTERS, name, namespace)["spec"]["workerGroupSpecs"][0]
    found: int = group["replicas"]
    return found


def deleted(repair: Webhook, namespace: str) -> list[Json]:
    text = f"deleted pod {namespace}/"
    return [line for line in repair.controller.lines() if text in str(line.get("message", ""))]


def waiting(repair: Webhook, why: str) -> float:
    return repair.controller.sample("ray_webhook_repair_waiting_replicas", {"why": why})


def notes(api: Api, namespace: str) -> list[str]:
    return [each["note"] for each in api.list(EVENTS, namespace) if "replaced" in each["note"]]


@pytest.mark.parametrize("harm", ["one host", "two hosts", "a failed host"])
def test_a_replica_that_lost_a_host_is_replaced_and_the_others_stay(
    control_plane: ControlPlane, repair: Webhook, harm: str, *, indexing: bool
) -> None:
    api = control_plane.api
    namespace = control_plane.namespace(f"lost-{harm.replace(' ', '-')}-{indexing}".lower())
    with Operator(control_plane, multi_host_indexing=indexing), Kubelet(api, namespace) as kubelet:
        api.create(RAY_CLUSTERS, asking("one", 2), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        if harm == "a failed host":
            kubelet.fail(with_identity(before, 0, 2))
        else:
            delete(api, namespace, *of_replica(before, 0)[: 1 if harm == "one host" else 2])
        replaced(api, namespace, before, 0)
        assert replicas_of(api, "one", namespace) == 2
        if indexing:
            assert (notes(api, namespace), deleted(repair, namespace)) == ([], [])
        else:
            (lost,) = replica_names(of_replica(before, 0))
            until(
                lambda: any(LOST in note and lost in note for note in notes(api, namespace)),
                "the RayCluster has its event",
            )
    control_plane.delete_ray_cluster("one", namespace)


def ranks(pods: Objects) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for pod in pods:
        container = pod["spec"]["containers"][0]
        env = {each["name"]: each.get("value", "") for each in container["env"]}
        index = int(pod["metadata"]["labels"][names.LABEL_REPLICA_INDEX])
        found[index] = (env[names.NODE_RANK], env[names.NNODES], env[names.MASTER_ADDR])
    return found


def test_a_drain_of_a_node_takes_whole_replicas(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    node = f"drained-{indexing}".lower()
    api, namespace = control_plane.api, control_plane.namespace(node)
    with (
        Operator(control_plane, multi_host_indexing=indexing),
        Kubelet(api, namespace),
        present(api, [node]),
    ):
        api.create(RAY_CLUSTERS, asking("one", 2), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        here = [with_identity(before, 1, 1), with_identity(before, 1, 2)]
        for pod in here:
            bind(api, name_of(pod), namespace, node)
        api.patch(NODES, node, {"spec": {"unschedulable": True}})
        for pod in here:
            evict(api, pod, namespace)
        replaced(api, namespace, before, 1)
        assert replicas_of(api, "one", namespace) == 2
    control_plane.delete_ray_cluster("one", namespace)


def evict(api: Api, pod: Json, namespace: str) -> None:
    """Ask for a pod to leave, as `kubectl drain` does: it may be gone with its replica already."""
    meta = {"name": name_of(pod), "namespace": namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    try:
        api.request("POST", PODS.path(namespace, name_of(pod), "eviction"), body)
    except ApiError as error:
        if error.code != 404:
            raise


def test_a_node_that_is_gone_takes_whole_replicas(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    node = f"gone-{indexing}".lower()
    api, namespace = control_plane.api, control_plane.namespace(node)
    with Operator(control_plane, multi_host_indexing=indexing), Kubelet(api, namespace) as kubelet:
        kubelet.lost = node
        api.create(RAY_CLUSTERS, asking("one", 2), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        lost = with_identity(before, 1, 2)
        api.create(NODES, {"metadata": {"name": node}})
        bind(api, name_of(lost), namespace, node)
        unreachable(api, lost, namespace)
        if not indexing:  # KubeRay waits until the pod is gone
            gone(api, namespace, of_replica(before, 1))
        assert api.get(PODS, name_of(lost), namespace)["metadata"]["deletionTimestamp"]
        api.delete(NODES, node)
        collect(api, lost, namespace)
        replaced(api, namespace, before, 1)
        assert replicas_of(api, "one", namespace) == 2
    control_plane.delete_ray_cluster("one", namespace)


def unreachable(api: Api, pod: Json, namespace: str) -> None:
    """Delete a pod as Kubernetes does when nothing is heard of its Node: it stays Terminating."""
    disrupt(api, pod, namespace, "DeletionByTaintManager")
    api.delete(PODS, name_of(pod), namespace)


def collect(api: Api, pod: Json, namespace: str) -> None:
    """Delete a pod as Kubernetes does when its Node is gone: it Failed, and goes at once."""
    disrupt(api, pod, namespace, "DeletionByPodGC", phase="Failed")
    delete(api, namespace, pod)


def disrupt(api: Api, pod: Json, namespace: str, reason: str, **status: str) -> None:
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
    api, namespace = control_plane.api, control_plane.namespace(f"crashing-{indexing}".lower())
    asked = {names.ANNOTATION_REPAIR: "true", names.ANNOTATION_RESTART: names.RESTART_REPLICA}
    with Operator(control_plane, multi_host_indexing=indexing), Kubelet(api, namespace) as kubelet:
        api.create(RAY_CLUSTERS, asking("one", 1, **asked), namespace)
        for number in range(LIMITS.per_hour):
            pods = sealed(api, namespace, HOSTS)
            if number == 1:
                repair.controller.kill()
                repair.controller.start()
            kubelet.crash(pods[1], number + 1)
            gone(api, namespace, pods)
        last = sealed(api, namespace, HOSTS)
        kubelet.crash(last[1], 1)
        until(lambda: waiting(repair, SPENT), "the budget is spent", SECONDS)
        repair.controller.kill()
        repair.controller.start()
        kubelet.crash(last[1], 2)
        until(lambda: waiting(repair, SPENT), "another controller knows it", SECONDS)
        assert uids(workers(api, namespace)) == uids(last)
        assert len(record(api, namespace).replaced) == LIMITS.per_hour
        assert replicas_of(api, "one", namespace) == 1
    control_plane.delete_ray_cluster("one", namespace)


def test_a_controller_that_ends_between_mark_and_deletion_goes_on_where_it_stopped(
    control_plane: ControlPlane, repair: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("marked")
    with Operator(control_plane, multi_host_indexing=False), Kubelet(api, namespace):
        api.create(RAY_CLUSTERS, asking("one", 1), namespace)
        before = sealed(api, namespace, HOSTS)
        repair.controller.kill()
        begin(api, namespace, before)
        first = with_identity(before, 0, 1)
        label(api, namespace, first)
        delete(api, namespace, with_identity(before, 0, 3))
        newcomers = until(
            lambda: [
                pod for pod in workers(api, namespace) if pod["metadata"]["uid"] not in uids(before)
            ],
            "KubeRay replaces the pod",
        )
        assert not replica_names(newcomers) & replica_names(before)

        repair.controller.start()
        gone(api, namespace, before)
        after = sealed(api, namespace, HOSTS)
        assert replica_names(after) == replica_names(newcomers)
    control_plane.delete_ray_cluster("one", namespace)


def begin(api: Api, namespace: str, pods: Objects) -> None:
    cluster = api.get(RAY_CLUSTERS, "one", namespace)
    (group,) = cluster["spec"]["workerGroupSpecs"]
    (name,) = replica_names(pods)
    going = msgspec.structs.replace(record(api, namespace), deleting={name: LOST})
    text = msgspec.json.encode({group["groupName"]: going}).decode()
    api.patch(CONFIG_MAPS, RECORDS, {"data": {cluster["metadata"]["uid"]: text}}, NAMESPACE)


def label(api: Api, namespace: str, pod: Json) -> None:
    text = mark(LOST, pod["metadata"]["uid"])
    marking = {"metadata": {"labels": {names.LABEL_MARKED_FOR_DELETION: text}}}
    api.patch(PODS, name_of(pod), marking, namespace)


def test_a_label_that_a_person_writes_is_removed_and_deletes_nothing(
    control_plane: ControlPlane, repair: Webhook
) -> None:
    assert repair.controller.ready
    api, namespace = control_plane.api, control_plane.namespace("labelled")
    with Operator(control_plane, multi_host_indexing=False), Kubelet(api, namespace):
        api.create(RAY_CLUSTERS, asking("one", 1), namespace)
        before = sealed(api, namespace, HOSTS)
        for pod in before:
            label(api, namespace, pod)
        until(
            lambda: (
                not any(
                    names.LABEL_MARKED_FOR_DELETION in pod["metadata"]["labels"]
                    for pod in workers(api, namespace)
                )
            ),
            "the labels are removed",
            SECONDS,
        )
        assert uids(sealed(api, namespace, HOSTS)) == uids(before)
    control_plane.delete_ray_cluster("one", namespace)


def test_while_kuberay_is_down_what_is_left_of_a_replica_goes_and_it_comes_back_whole(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    api, namespace = control_plane.api, control_plane.namespace(f"kuberay-down-{indexing}".lower())
    operating = Operator(control_plane, multi_host_indexing=indexing)
    with operating as operator, Kubelet(api, namespace):
        api.create(RAY_CLUSTERS, asking("one", 2), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        operator.stop()
        delete(api, namespace, with_identity(before, 1, 0))
        if not indexing:
            gone(api, namespace, of_replica(before, 1))
        operator.start()
        replaced(api, namespace, before, 1)
    control_plane.delete_ray_cluster("one", namespace)


def test_a_scale_down_that_names_one_host_leaves_whole_replicas(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    api, namespace = control_plane.api, control_plane.namespace(f"scaled-down-{indexing}".lower())
    with Operator(control_plane, multi_host_indexing=indexing), Kubelet(api, namespace):
        api.create(RAY_CLUSTERS, asking("one", 2), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        scale(api, "one", namespace, 1, [with_identity(before, 1, 2)])
        wait_for_workers(api, namespace, HOSTS)
        scale(api, "one", namespace, 1)
        sealed(api, namespace, HOSTS)
        assert replicas_of(api, "one", namespace) == 1
    control_plane.delete_ray_cluster("one", namespace)


def test_a_scale_down_while_a_host_is_lost_leaves_whole_replicas(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    assert repair.controller.ready
    api, namespace = control_plane.api, control_plane.namespace(f"both-{indexing}".lower())
    with Operator(control_plane, multi_host_indexing=indexing), Kubelet(api, namespace):
        api.create(RAY_CLUSTERS, asking("one", 2), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        delete(api, namespace, with_identity(before, 0, 1))
        scale(api, "one", namespace, 1)
        sealed(api, namespace, HOSTS)
        assert replicas_of(api, "one", namespace) == 1
    control_plane.delete_ray_cluster("one", namespace)


def test_a_scale_down_before_any_pod_runs_leaves_whole_replicas(
    control_plane: ControlPlane, repair: Webhook
) -> None:
    assert repair.controller.ready
    api, namespace = control_plane.api, control_plane.namespace("early")
    with Operator(control_plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, asking("one", 3), namespace)
        wait_for_workers(api, namespace, 3 * HOSTS)
        scale(api, "one", namespace, 1)
        wait_for_workers(api, namespace, HOSTS)
        with Kubelet(api, namespace):
            sealed(api, namespace, HOSTS)
            assert replicas_of(api, "one", namespace) == 1
    control_plane.delete_ray_cluster("one", namespace)


def test_a_container_that_restarts_takes_its_replica_with_it(
    control_plane: ControlPlane, repair: Webhook, *, indexing: bool
) -> None:
    api, namespace = control_plane.api, control_plane.namespace(f"restarted-{indexing}".lower())
    repaired = {names.ANNOTATION_REPAIR: "true"} if indexing else {}
    asked = repaired | {names.ANNOTATION_RESTART: names.RESTART_REPLICA}
    with Operator(control_plane, multi_host_indexing=indexing), Kubelet(api, namespace) as kubelet:
        api.create(RAY_CLUSTERS, asking("one", 2, **asked), namespace)
        before = sealed(api, namespace, 2 * HOSTS)
        kubelet.restart(with_identity(before, 1, 3))
        replaced(api, namespace, before, 1)
        assert 0 < len(deleted(repair, namespace)) <= HOSTS
    control_plane.delete_ray_cluster("one", namespace)
