"""When a diagnosis becomes active, and its start time, follow from objects and events."""

from typing import Any

import pytest

from tests.builders import a_cluster
from tests.diagnostics.scenes import (
    NOW,
    Scene,
    instant,
    llama,
)
from webhook.api.names import LABEL_HOST_INDEX
from webhook.diagnostics.diagnosis import Problem

HEAD = "llama-head"
HOST = "llama-tpu-worker-0-3"
FIRST = tuple(f"llama-tpu-worker-0-{host}" for host in range(4))
SECOND = tuple(f"llama-tpu-worker-1-{host}" for host in range(4))


def ended(scene: Scene, pod: str, seconds: float) -> Scene:
    """Let kubelet tell of the end of a pod some seconds ago."""
    about = {"kind": "Pod", "name": pod, "uid": f"uid-of-former-{pod}"}
    meta = {"name": f"end-of-{pod}", "namespace": "team", "uid": f"uid-of-the-end-of-{pod}"}
    scene.events.append(
        {
            "metadata": meta,
            "reason": "Killing",
            "involvedObject": about,
            "lastTimestamp": instant(seconds),
        }
    )
    return scene


def leaves(scene: Scene, pod: str, seconds: float, grace: int = 600) -> Scene:
    """Let a pod be deleted some seconds ago, with all the time to end that it may have."""
    deletion = {
        "deletionTimestamp": instant(seconds - grace),
        "deletionGracePeriodSeconds": grace,
    }
    return scene.changed(pod, metadata=deletion)


def edited(scene: Scene, seconds: float, **group: Any) -> Scene:  # noqa: ANN401 - JSON
    """Change the group some seconds ago."""
    scene.cluster["spec"]["workerGroupSpecs"][0] |= group
    scene.cluster["metadata"]["managedFields"] = [
        {"manager": "kubectl", "time": instant(seconds), "fieldsV1": {"f:spec": {"f:x": {}}}},
        {
            "manager": "kuberay-operator",
            "subresource": "status",
            "time": instant(0),
            "fieldsV1": {"f:status": {}},
        },
    ]
    return scene


def condition(scene: Scene, kind: str, status: str, seconds: float) -> Scene:
    """Give the RayCluster a condition of some seconds ago."""
    found = {"type": kind, "status": status, "lastTransitionTime": instant(seconds)}
    scene.cluster["status"] = {"conditions": [found]}
    return scene


def the_problem(scene: Scene, now: float = NOW) -> Problem:
    """Return the only problem."""
    (found,) = scene.examined(now).every_problem
    return found


def test_the_end_of_a_pod_of_another_raycluster_or_group_hides_no_missing_host() -> None:
    scene = Scene().without(HOST)
    for other in (
        "llama-70b-tpu-worker-x7k2p",
        "llama-cpu-worker-x7k2p",
        "llama-tpu-worker-b-worker-x7k2p",
        "llama-head-x7k2p",
    ):
        ended(scene, other, 1)
    assert scene.ids() == ["host-missing"]


def test_the_end_of_a_pod_of_the_group_says_since_when_a_host_is_missing() -> None:
    scene = ended(Scene().without(HOST), "llama-tpu-worker-x7k2p", 720)
    assert the_problem(scene).since == NOW - 720
    assert ended(Scene().without(HOST), "llama-tpu-worker-x7k2p", 10).ids() == []


def test_a_group_whose_name_is_cut_off_has_the_pods_that_kuberay_names() -> None:
    long = "llama-" + "x" * 46
    scene = Scene(a_cluster(long).group("Workers", hosts=4, replicas=1))
    last = next(name for name, pod in scene.pods.items() if is_host(pod, "3"))
    ended(scene.without(last), f"{long[:50]}-worker-x7k2p", 720)
    assert the_problem(scene).since == NOW - 720


def is_host(pod: dict[str, Any], host: str) -> bool:
    return bool(pod["metadata"]["labels"].get(LABEL_HOST_INDEX) == host)


def test_replicas_that_come_and_go_hide_no_missing_host_of_another() -> None:
    scene = Scene().without(HOST)
    for number in range(30):
        ended(scene, f"llama-tpu-worker-{number:05}", 10 + number * 20)
    assert the_problem(scene).since is None  # which of them it was no one can tell


def test_an_end_of_long_ago_does_not_make_a_host_late_that_was_lost_a_moment_ago() -> None:
    scene = ended(Scene().without(HOST), "llama-tpu-worker-aaaaa", 600)
    ended(scene, "llama-tpu-worker-bbbbb", 5)
    assert scene.ids() == []
    problem = the_problem(scene, NOW + 25)
    assert (problem.id, problem.since) == ("host-missing", None)


def test_the_ends_of_another_replica_do_not_say_since_when_a_host_is_missing() -> None:
    scene = Scene().without(HOST)
    for number in range(4):
        ended(scene, f"llama-tpu-worker-abcd{number}", 2400)
    assert the_problem(scene).since is None


def test_as_many_ends_as_hosts_are_missing_are_theirs() -> None:
    scene = ended(Scene().without(*FIRST[2:]), "llama-tpu-worker-aaaaa", 600)
    ended(scene, "llama-tpu-worker-bbbbb", 5)
    assert the_problem(scene).since == NOW - 600


@pytest.mark.parametrize("apart", [10, 40, 100])
def test_pods_that_end_again_and_again_do_not_put_off_a_missing_host(apart: int) -> None:
    scene = Scene().without(HOST)
    for number in range(12):
        ended(scene, f"llama-tpu-worker-{number:05}", 1 + number * apart)
    assert the_problem(scene).id == "host-missing"


def test_a_host_that_is_known_to_go_counts_whatever_else_ends() -> None:
    scene = leaves(Scene().without(FIRST[2]), HOST, 40)
    for number in range(3):
        ended(scene, f"llama-tpu-worker-{number:05}", 5)
    assert the_problem(scene).since is None


def test_an_end_before_the_newest_host_is_not_the_one_of_the_missing_host() -> None:
    scene = ended(Scene().without(HOST), "llama-tpu-worker-x7k2p", 1000)
    scene.changed(FIRST[0], metadata={"creationTimestamp": instant(500)})
    problem = the_problem(scene)
    assert problem.since is None


def test_a_host_is_missing_from_the_deletion_of_its_pod_on() -> None:
    scene = leaves(Scene(), HOST, 5)
    assert scene.ids() == []
    assert the_problem(scene, NOW + 25).since == NOW - 5


def test_the_deletion_of_a_host_of_another_replica_says_nothing_of_this_one() -> None:
    scene = ended(Scene().without(HOST), "llama-tpu-worker-x7k2p", 720)
    leaves(scene, SECOND[2], 40)
    found = {each.replica: each.since for each in scene.examined().every_problem}
    assert found == {0: NOW - 720, 1: NOW - 40}


def test_where_nothing_tells_since_when_none_is_said() -> None:
    assert the_problem(Scene().without(HOST)).since is None
    assert the_problem(Scene().without(HEAD)).since is None
    assert the_problem(Scene().without(*SECOND)).since is None


def test_a_host_that_never_came_counts_from_the_newest_of_the_others() -> None:
    scene = Scene().without(HOST)
    for pod in FIRST[:3]:
        scene.changed(pod, metadata={"creationTimestamp": instant(20)})
    assert scene.ids() == []
    assert scene.ids(NOW + 10) == ["host-missing"]


@pytest.mark.parametrize("former", ["llama-head-x7k2p", "llama-head"])
def test_the_end_of_the_head_says_since_when_it_is_missing(former: str) -> None:
    scene = ended(Scene().without(HEAD), former, 2)
    assert scene.ids() == []
    assert the_problem(scene, NOW + 58).since == NOW - 2


def test_a_head_is_missing_from_its_deletion_on() -> None:
    scene = leaves(Scene(), HEAD, 2)
    assert scene.ids() == []
    assert the_problem(scene, NOW + 58).since == NOW - 2


def test_a_head_was_still_there_when_kuberay_first_said_that_it_is_not_ready() -> None:
    scene = condition(Scene().without(HEAD), "HeadPodReady", "False", 2)
    assert scene.ids() == []
    problem = the_problem(scene, NOW + 58)
    assert (problem.id, problem.since) == ("head-missing", None)
    scene = ended(condition(Scene().without(HEAD), "HeadPodReady", "False", 3000), HEAD, 90)
    assert the_problem(scene).since == NOW - 90


def test_a_head_of_a_raycluster_that_was_resumed_may_take_its_time() -> None:
    scene = condition(Scene().without(HEAD), "RayClusterSuspended", "False", 2)
    assert scene.ids() == []
    assert scene.ids(NOW + 58) == ["head-missing"]
    assert edited(Scene().without(HEAD), 2).ids() == []


def test_more_replicas_count_from_the_edit_on() -> None:
    scene = edited(Scene(), 2, replicas=3)
    assert scene.ids() == []
    problem = the_problem(scene, NOW + 58)
    assert (problem.id, problem.since) == ("replica-missing", None)


def test_a_replica_that_is_replaced_counts_from_its_deletion_on() -> None:
    scene = Scene()
    for pod in SECOND:
        leaves(scene, pod, 2)
    assert scene.ids() == []
    assert the_problem(scene, NOW + 58).since == NOW - 2
    scene = ended(Scene().without(*SECOND), "llama-tpu-worker-x7k2p", 2)
    assert scene.ids() == []
    assert the_problem(scene, NOW + 58).since == NOW - 2


def test_fewer_replicas_count_from_the_edit_on() -> None:
    scene = edited(Scene(), 2, replicas=1)
    assert scene.ids() == []
    problem = the_problem(scene, NOW + 118)
    assert (problem.id, problem.since) == ("replica-beyond-desired", None)


def test_replicas_that_come_and_are_too_many_count_from_then_on() -> None:
    scene = Scene(llama(replicas=3))
    scene.cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    for host in range(4):
        scene.changed(f"llama-tpu-worker-2-{host}", metadata={"creationTimestamp": instant(100)})
    assert scene.ids() == []
    assert scene.ids(NOW + 20) == ["replica-beyond-desired"]


@pytest.mark.parametrize("grace", [2**63 - 1, -(2**63), -5])
def test_an_absurd_grace_period_says_nothing_of_when_a_deletion_began(grace: int) -> None:
    deletion = {"deletionTimestamp": instant(60), "deletionGracePeriodSeconds": grace}
    (problem,) = [
        each
        for each in Scene().changed(HOST, metadata=deletion).examined().every_problem
        if each.id == "host-missing"
    ]
    assert problem.since is None
