"""Causes: a problem that another one explains is not shown, and no other is hidden."""

import pytest

from tests.harness.scenes import NOW, Object, Scene, hosts_of, instant
from tests.webhook.diagnostics.samples import samples
from webhook.diagnostics.examination import DIAGNOSES, EXPLAINS

HOST = "llama-tpu-worker-0-{}"
WITHOUT_IDENTITY = samples()["pod-without-identity"].pods[HOST.format(3)]
UNNAMED: Object = {"spec": {"hostname": None}}


def refused() -> Scene:
    """Return a scene in which KubeRay is refused the pods of a replica."""
    return samples()["pod-refused"].scene()


@pytest.mark.parametrize("webhook", [
    '"pods.admission.ray.io"', '"optional-pods.admission.ray.io"', r"\"pods.admission.ray.io\"",
])  # fmt: skip
def test_pods_rejected_for_an_unavailable_webhook_lead_to_the_check(webhook: str) -> None:
    scene = refused()
    (denied,) = scene.examined().clusters[0].problems
    assert denied.command.startswith("kubectl get raycluster ")
    scene.events[0] = scene.events[0] | {
        "message": f"Internal error occurred: failed calling webhook {webhook}: no endpoints "
        'available for service "ray-webhook"'
    }
    (failed,) = scene.examined().clusters[0].problems
    assert (failed.id, failed.command) == ("pod-refused", "ray-webhook check")
    assert failed.remedy.startswith("make the webhook answer")


def doubled() -> Scene:
    """Return a scene in which one pod has the index of another one."""
    labels = {"ray.io/replica-host-index": "2"}
    return Scene().changed(HOST.format(3), metadata={"labels": labels})


CASES: dict[str, tuple[Scene, set[str]]] = {
    "a pod with the index of another": (doubled(), {"identity-duplicate"}),
    "and a host that really is missing": (doubled().without(HOST.format(1)),
     {"identity-duplicate", "host-missing"}),
    "and a pod of that replica that was given another place": (doubled()
     .with_env(HOST.format(0), TPU_WORKER_ID="1"), {"identity-duplicate", "worker-id-differs"}),
    "and a host that is missing in another replica": (doubled().without("llama-tpu-worker-1-3"),
     {"identity-duplicate", "host-missing"}),
    "a pod without a place": (Scene().changed(HOST.format(3), **WITHOUT_IDENTITY),
     {"pod-without-identity"}),
    "and one that is missing": (Scene().changed(HOST.format(3), **WITHOUT_IDENTITY)
     .without("llama-tpu-worker-1-0"), {"pod-without-identity", "host-missing"}),
    "a pod of a group that there is not": (Scene()
     .changed(HOST.format(3), metadata={"labels": {"ray.io/group": "gone"}}),
     {"pod-without-group"}),
    "a pod that was made without the webhook": (Scene().with_env(HOST.format(3), TPU_WORKER_ID=None)
     .changed(HOST.format(3), **UNNAMED), {"worker-id-differs"}),
    "and another one without a name": (Scene().with_env(HOST.format(3), TPU_WORKER_ID=None)
     .changed(HOST.format(2), **UNNAMED), {"worker-id-differs", "hostname-differs"}),
    "pods that are refused": (refused(), {"pod-refused"}),
    "and a host": (refused().without(HOST.format(3)), {"pod-refused"}),
    "and the head": (refused().without("llama-head"), {"pod-refused"}),
}  # fmt: skip


@pytest.mark.parametrize(("scene", "shown"), CASES.values(), ids=CASES)
def test_a_cause_hides_its_consequences_and_nothing_else(scene: Scene, shown: set[str]) -> None:
    assert set(scene.ids()) == shown


def test_hosts_that_differ_alike_are_counted_beside_the_first() -> None:
    scene = Scene().changed(*hosts_of(0)[1:], **UNNAMED)
    (found,) = scene.examined().every_problem
    assert found.id == "hostname-differs"
    assert ", and 2 more like it: " in found.message


def test_a_replica_whose_problem_is_explained_is_still_not_complete() -> None:
    (cluster,) = refused().without(HOST.format(3)).examined().clusters
    assert [replica.state for replica in cluster.groups[0].replicas] == ["degraded", "missing"]


def test_the_table_has_ids_that_exist_and_no_circle() -> None:
    known = {each.id for each in DIAGNOSES}
    for cause, consequences in EXPLAINS.items():
        assert {cause, *consequences} <= known
        for each in consequences:
            assert cause not in EXPLAINS.get(each, ())


def test_of_one_cluster_the_problem_that_began_first_is_first() -> None:
    scene = samples()["container-not-running"].scene()
    scene.changed("llama-tpu-worker-1-0", **samples()["pod-ended"].pods[HOST.format(3)])
    found = scene.examined().every_problem
    times = [each.since for each in found if each.since is not None]
    assert len(times) > 1
    assert times == sorted(times)


QUOTA = (
    'Failed to create worker Pod team/, pods "llama-tpu-worker-x7k2p" is forbidden: exceeded '
    "quota: tpus, requested: google.com/tpu=4, used: google.com/tpu=24, limited: google.com/tpu=24"
)


def flapping(seconds: float, hosts: int) -> Scene:
    """Return a scene in which a quota is full in the second half of replica 1, whose first hosts
    were created a second ago, and the last rejection was some seconds ago.
    """
    status: Object = {"conditions": []}
    scene = Scene().changed(*hosts_of(1), metadata={"creationTimestamp": instant(1)}, status=status)
    scene.without(*hosts_of(1)[hosts:])
    for age in (900, seconds):
        scene.event("FailedToCreateWorkerPod", "llama", age, message=QUOTA + ",pods=9" * 90)
    created = "Created worker Pod team/llama-tpu-worker-1-0"
    return scene.event("CreatedWorkerPod", "llama", 1, message=created)


@pytest.mark.parametrize("seconds", [1, 2, 60, 300])
@pytest.mark.parametrize("hosts", [0, 1, 2, 3])
def test_a_quota_that_is_full_within_a_replica_is_the_cause(seconds: float, hosts: int) -> None:
    (cluster,) = flapping(seconds, hosts).examined().clusters
    (problem,) = cluster.problems
    assert (problem.id, problem.since) == ("pod-refused", NOW - 900)
    assert problem.message.startswith('KubeRay cannot create a pod: pods "llama-tpu-worker-')
    assert len(problem.message) == len("KubeRay cannot create a pod: ") + 600
    assert problem.command == "kubectl describe resourcequota -n team"
    assert [replica.state for replica in cluster.groups[0].replicas] == [
        "complete",
        "degraded" if hosts else "missing",
    ]


def test_a_rejection_ends_with_pods_that_have_existed_for_two_minutes() -> None:
    scene = flapping(30, 3)
    assert "pod-refused" in scene.ids(NOW + 118)
    assert scene.ids(NOW + 119) == ["host-missing"]


def test_a_rejection_ends_with_a_complete_replica() -> None:
    scene = flapping(30, 4).without("llama-tpu-worker-0-0")
    assert "pod-refused" in scene.ids()
    ready = [{"type": "Ready", "status": "True"}]
    scene.changed(*hosts_of(1), status={"conditions": ready})
    assert "pod-refused" not in scene.ids()
