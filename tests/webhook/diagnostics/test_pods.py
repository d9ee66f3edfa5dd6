"""Pods that have ended or never become ready are reported, except during a normal start."""

from typing import Any

import pytest
from msgspec import structs

from tests.builders import a_cluster
from tests.harness.scenes import NOW, Scene, hosts_of, instant, llama, merged
from webhook.api import names

HEAD = "llama-head"
HOST = "llama-tpu-worker-0-3"
TEN_MINUTES, AN_HOUR = 600, 3600


def unready(seconds: float, **status: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the status of a pod on a node that has not been ready for some seconds."""
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": instant(seconds)}
    return {"phase": "Running", "conditions": [condition], **status}


def ended(seconds: float, phase: str = "Failed", **status: Any) -> dict[str, Any]:  # noqa: ANN401
    return unready(seconds, **({"phase": phase} | status))


def running(name: str, *, started: bool = True) -> dict[str, Any]:
    state = {"running": {"startedAt": instant(AN_HOUR)}}
    return {"name": name, "ready": False, "started": started, "state": state}


def terminated(seconds: float, code: int = 137, reason: str = "OOMKilled") -> dict[str, Any]:
    end = {"exitCode": code, "reason": reason, "finishedAt": instant(seconds)}
    return {"name": "ray-worker", "ready": False, "state": {"terminated": end}}


def waiting(name: str, reason: str) -> dict[str, Any]:
    return {"name": name, "ready": False, "state": {"waiting": {"reason": reason}}}


def messages(scene: Scene, now: float = NOW) -> list[str]:
    return [each.message for each in scene.examined(now).every_problem]


def ready(name: str) -> dict[str, Any]:
    return {"name": name, "ready": True, "started": True, "state": {"running": {}}}


def restarted(count: int, seconds: float = 600, **state: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the status of a pod whose Ray container ended and was started again."""
    end = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": instant(seconds)}
    status = {
        "name": "ray-worker", "ready": True, "restartCount": count,
        "state": {"running": {"startedAt": instant(seconds - 5)}},
        "lastState": {"terminated": end}}  # fmt: skip
    return {"containerStatuses": [status | state]}


DONE = terminated(AN_HOUR, 0, "Completed")
CRASHING = unready(5, containerStatuses=[waiting("log", "CrashLoopBackOff")])
SERVES = {"metadata": {"labels": {names.LABEL_SERVE: "true"}}}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": instant(TEN_MINUTES)}
STATES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a host that succeeded": (HOST, {"status": ended(120, "Succeeded")}, ["pod-ended"]),
    "a head that succeeded": (HEAD, {"status": ended(120, "Succeeded")}, ["pod-ended"]),
    "a pod that KubeRay is about to replace": (HOST, {"status": ended(20)}, []),
    "a submitter that has ended": (HOST, {"status": unready(AN_HOUR, containerStatuses=[
        ready("ray-worker"), terminated(AN_HOUR, 1) | {"name": "ray-job-submitter"}])}, []),
    "a container beside Ray whose work is done": (HOST, {"status": unready(
        AN_HOUR, containerStatuses=[ready("ray-worker"), DONE | {"name": "prepare"}])}, []),
    "a Ray that has ended without an error": (
        HOST, {"status": unready(AN_HOUR, containerStatuses=[DONE])}, ["container-not-running"]),
    "a container that crashes, in a pod that was ready a moment ago": (
        HOST, {"status": CRASHING}, ["container-not-running"]),
    "one that crashes in a young pod": (
        HOST, {"metadata": {"creationTimestamp": instant(30)}, "status": CRASHING}, []),
    "a container that is about to start again": (HOST, {"spec": {"restartPolicy": "Always"},
        "status": unready(90, containerStatuses=[terminated(1)])}, []),
    "one that is so after a failure": (HOST, {"spec": {"restartPolicy": "OnFailure"},
        "status": unready(90, containerStatuses=[terminated(1)])}, []),
    "one that never starts again": (HOST, {"spec": {"restartPolicy": "Never"},
        "status": unready(90, containerStatuses=[terminated(1)])}, ["container-not-running"]),
    "a crashing host whose Ray restarted": (HOST, {"status": unready(300) | restarted(
        5, 120, state={"waiting": {"reason": "CrashLoopBackOff"}}, ready=False)},
        ["container-not-running"]),
    "a sidecar that restarted": (HOST, {"status": restarted(1, name="proxy")}, []),
    "a worker of a RayService that serves nothing": (HOST, SERVES | {
        "status": unready(AN_HOUR, containerStatuses=[running("ray-worker")])}, []),
    "one that does not start": (HOST, SERVES | {
        "status": unready(AN_HOUR, initContainerStatuses=[running("load-model")])},
        ["pod-not-ready"]),
    "one whose startup probe fails": (HOST, SERVES | {
        "status": unready(AN_HOUR, containerStatuses=[running("ray-worker") | {"started": False}])},
        ["pod-not-ready"]),
    "a head, which serves nothing and has to be ready": (HEAD, SERVES | {
        "status": unready(AN_HOUR, containerStatuses=[running("ray-worker")])},
        ["pod-not-ready"]),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "overlay", "expected"), STATES.values(), ids=STATES)
def test_a_pod_has_a_problem_or_not(pod: str, overlay: dict[str, Any], expected: list[str]) -> None:
    assert Scene().changed(pod, **overlay).ids() == expected


@pytest.mark.parametrize(("status", "seconds", "expected"), [
    (unready(90, containerStatuses=[terminated(90)]), -30, "container-not-running"),
    (unready(5, containerStatuses=[waiting("ray-worker", "ErrImagePull")]), 55,
     "container-not-running"),
    (unready(TEN_MINUTES, phase="Pending", initContainerStatuses=[running("wait-gcs-ready")]), 300,
     "pod-not-ready"),
    ({"phase": "Pending", "conditions": [SCHEDULED]}, 300, "pod-not-ready"),
], ids=["ended", "waits", "starts slowly", "found a node late"])  # fmt: skip
def test_a_problem_has_a_delay(status: dict[str, Any], seconds: float, expected: str) -> None:
    scene = Scene().changed(HOST, status=status)
    assert scene.ids(NOW + seconds - 1) == []
    assert scene.ids(NOW + seconds) == [expected]
    assert scene.examined(NOW + seconds).is_degraded


@pytest.mark.parametrize(("pod", "status", "said"), [
    (HOST, ended(120, containerStatuses=[terminated(120)]),
     "host 3 of replica 0 has ended: ray-worker: OOMKilled, exit code 137"),
    (HEAD, ended(120), "llama-head (the head) has ended: Failed"),
    (HOST, unready(90, containerStatuses=[terminated(90)]),
     "host 3 of replica 0 does not run: ray-worker: OOMKilled, exit code 137"),
    (HOST, unready(AN_HOUR, containerStatuses=[running("ray-worker")]),
     "host 3 of replica 0 is not ready: the readiness probe of ray-worker does not succeed"),
    (HOST, unready(AN_HOUR, containerStatuses=[waiting("ray-worker", "ContainerCreating")]),
     "host 3 of replica 0 is not ready: ray-worker: ContainerCreating"),
    (HOST, unready(AN_HOUR), "host 3 of replica 0 is not ready: kubelet gives no reason"),
    (HOST,
     unready(AN_HOUR, initContainerStatuses=[ready("proxy")],
     containerStatuses=[running("ray-worker")]),
     "host 3 of replica 0 is not ready: the readiness probe of ray-worker does not succeed"),
])  # fmt: skip
def test_it_says_what_is_wrong_with_a_pod(pod: str, status: dict[str, Any], said: str) -> None:
    assert messages(Scene().changed(pod, status=status)) == [said]


@pytest.mark.parametrize(("status", "ago"), [
    (ended(90, containerStatuses=[terminated(120)]), 120),
    (unready(90, containerStatuses=[terminated(90)]), 90),
    (CRASHING, None),
])  # fmt: skip
def test_it_says_since_when(status: dict[str, Any], ago: float | None) -> None:
    (problem,) = Scene().changed(HOST, status=status).examined().every_problem
    assert problem.since == (None if ago is None else NOW - ago)


def test_a_ray_behind_a_proxy_that_has_ended_without_an_error_does_not_run() -> None:
    status = unready(AN_HOUR, containerStatuses=[ready("proxy"), DONE])
    scene = Scene().changed(HOST, status=status)
    scene.pods[HOST]["spec"]["containers"].insert(0, {"name": "proxy"})
    assert "container-not-running" in scene.ids()


def test_workers_that_wait_for_a_head_that_is_not_ready_are_its_problem_only() -> None:
    waits = unready(AN_HOUR, phase="Pending", initContainerStatuses=[running("wait-gcs-ready")])
    scene = Scene().changed(HEAD, status=unready(AN_HOUR))
    scene.changed(*scene.workers, status=waits)
    assert messages(scene) == ["llama-head (the head) is not ready: kubelet gives no reason"]


def test_workers_that_waited_for_a_slow_head_have_their_time_from_its_readiness_on() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": instant(2)}
    scene = Scene().changed(HEAD, status={"conditions": [ready]})
    waits = unready(AN_HOUR, initContainerStatuses=[running("wait-gcs-ready")])
    scene.changed(*scene.workers, status=waits)
    assert scene.ids() == []
    assert scene.ids(NOW + 897) == []
    problems = scene.examined(NOW + 898).every_problem
    assert [(each.id, each.since) for each in problems] == [("pod-not-ready", NOW - 2)] * 2


def test_pods_behind_scheduling_gates_are_no_matter_of_nodes() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    status = {"phase": "Pending", "conditions": [gated]}
    spec = {"nodeName": None, "schedulingGates": gates}
    scene = Scene().changed(*hosts_of(1), spec=spec, status=status)
    (problem,) = scene.examined().every_problem
    assert (problem.id, problem.level) == ("pod-gated", "warning")
    assert problem.message == (
        "hosts 0-3 of replica 1 are held back by scheduling gate kueue.x-k8s.io/admission"
    )
    assert problem.command == "kubectl describe workloads.kueue.x-k8s.io -n team"
    gates.append({"name": "example.com/quota"})
    scene.changed(*hosts_of(1), spec={"schedulingGates": gates})
    (problem,) = scene.examined().every_problem
    assert "gates kueue.x-k8s.io/admission, example.com/quota" in problem.message
    assert problem.command == "kubectl describe pod -n team llama-tpu-worker-1-0"


@pytest.mark.parametrize(("others", "started", "said"), [
    ({}, False, "sidecar gcsfuse has not started"),
    ({}, True, "the readiness probe of gcsfuse does not succeed"),
    ({"initContainerStatuses": [running("wait-gcs-ready")]}, True,
     "init container wait-gcs-ready has not ended"),
    ({"containerStatuses": [running("ray-worker", started=False)]}, True,
     "the startup probe of ray-worker has not succeeded"),
])  # fmt: skip
def test_an_init_sidecar_need_not_end(others: dict[str, Any], started: bool, said: str) -> None:
    status = {"containerStatuses": [{"name": "ray-worker", "ready": True}], **others}
    sidecar = running("gcsfuse", started=started)
    status["initContainerStatuses"] = [sidecar, *others.get("initContainerStatuses", ())]
    scene = Scene()
    env = scene.pods[HOST]["spec"]["containers"][0]["env"]
    lasting = {"name": "gcsfuse", "restartPolicy": "Always", "env": env}
    declared = [lasting, {"name": "wait-gcs-ready", "env": env}]
    scene.changed(HOST, spec={"initContainers": declared}, status=unready(AN_HOUR, **status))
    assert messages(scene) == [f"host 3 of replica 0 is not ready: {said}"]


def test_a_host_that_restarted_alone_is_named_with_its_last_end_and_since_when() -> None:
    scene = Scene().changed(HOST, status=restarted(2))
    (problem,) = scene.examined().every_problem
    assert problem.id == "host-restarted"
    assert "host 3 of replica 0 " in problem.message
    assert "(ray-worker: OOMKilled, exit code 137, after 2 restarts)" in problem.message
    assert problem.remedy.startswith("set a memory request and limit for ray-worker")
    assert problem.since == NOW - 600
    assert (problem.hosts, problem.pods) == ((3,), (HOST,))
    assert problem.change is not None
    assert problem.change.command.count("llama-tpu-worker-0-") == 4
    (cluster,) = scene.examined().clusters
    assert [each.state for each in cluster.groups[0].replicas] == ["degraded", "complete"]


def test_hosts_that_restarted_equally_often_started_together() -> None:
    scene = Scene().changed(*hosts_of(0), status=restarted(1))
    assert scene.ids() == []
    scene.changed(HOST, status=restarted(2))
    assert scene.ids() == ["host-restarted"]


def test_a_restart_before_the_newest_host_was_created_does_not_count() -> None:
    scene = Scene().changed(HOST, status=restarted(1))
    scene.changed("llama-tpu-worker-0-1", metadata={"creationTimestamp": instant(300)})
    assert scene.ids() == []


def test_a_restart_of_a_single_host_is_no_problem() -> None:
    single = Scene(a_cluster("llama").group("cpu", hosts=1, replicas=2))
    assert single.changed("llama-cpu-worker-0-0", status=restarted(1)).ids() == []


@pytest.mark.parametrize("text", ["", "null", "{", "[]", '{"last-failed-reason": null}', "7"])
def test_a_resize_that_has_not_failed_is_no_problem(text: str) -> None:
    annotations = {names.ANNOTATION_IPPR_STATUS: text}
    assert Scene().changed(HOST, metadata={"annotations": annotations}).ids() == []


def test_a_resize_that_ray_gave_up_explains_the_one_that_is_pending() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    conditions = [{"type": "Ready", "status": "True"}, pending]
    scene = Scene().changed(HOST, status={"conditions": conditions})
    assert scene.ids() == ["resize-stuck"]
    annotations = {names.ANNOTATION_IPPR_STATUS: '{"last-failed-reason": "not enough cpu"}'}
    scene.changed(HOST, metadata={"annotations": annotations})
    assert scene.ids() == ["resize-failed"]
    assert "not enough cpu" in messages(scene)[0]


LOST = {
    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
    "lastTransitionTime": instant(AN_HOUR - 60),
}  # fmt: skip


def node_of(scene: Scene, pod: str) -> dict[str, Any]:
    name = scene.pods[pod]["spec"]["nodeName"]
    return next(each for each in scene.nodes if each["metadata"]["name"] == name)


@pytest.mark.parametrize("pod", [HOST, HEAD])
@pytest.mark.parametrize("status", [
    unready(AN_HOUR - 60, containerStatuses=[ready("ray-worker")]),
    unready(AN_HOUR - 60, containerStatuses=[running("ray-worker")]),
    unready(AN_HOUR - 60, containerStatuses=[terminated(AN_HOUR)]),
    {},
], ids=["ready before", "starting before", "ended before", "not marked yet"])  # fmt: skip
def test_a_lost_node_is_the_cause_of_what_its_pods_show(pod: str, status: dict[str, Any]) -> None:
    scene = Scene().changed(pod, status=status)
    node_of(scene, pod)["status"] = {"conditions": [LOST]}
    (problem,) = scene.examined().every_problem
    assert (problem.id, problem.since, problem.pods) == ("node-lost", NOW - AN_HOUR + 60, (pod,))
    assert "which is lost: Kubelet stopped posting node status." in problem.message
    assert problem.command == f"kubectl describe node {scene.pods[pod]['spec']['nodeName']}"
    (cluster,) = scene.examined().clusters
    assert cluster.is_degraded


def test_a_node_that_was_deleted_is_lost_to_a_pod_that_is_not_ready() -> None:
    scene = Scene().changed(HOST, status=unready(90, containerStatuses=[ready("ray-worker")]))
    scene.nodes.remove(node_of(scene, HOST))
    (problem,) = scene.examined().every_problem
    assert (problem.id, problem.since) == ("node-lost", NOW - 90)
    assert "it does not exist any more" in problem.message


def test_a_host_on_a_node_that_may_not_be_read_is_late_like_any_other() -> None:
    scene = Scene().changed(HOST, status=unready(AN_HOUR, containerStatuses=[ready("ray-worker")]))
    scene.nodes.clear()
    observed = structs.replace(scene.observed(), nodes=None)
    assert [each.id for each in observed.examined(NOW).every_problem] == ["pod-not-ready"]


OUTLIVED = restarted(1, name="ray-head")


def test_a_head_that_restarted_has_lost_what_its_workers_belong_to() -> None:
    (problem,) = Scene().changed(HEAD, status=OUTLIVED).examined().every_problem
    assert (problem.id, problem.since, len(problem.pods)) == ("head-restarted", NOW - 595, 8)
    assert "OOMKilled, exit code 137" in problem.message
    assert "fault tolerance of the GCS, and set a memory request and limit" in problem.remedy
    scene = Scene().changed(HEAD, status=OUTLIVED).changed(HOST, status=unready(60))
    (pods,) = [each.pods for each in scene.examined().every_problem if each.id == "head-restarted"]
    assert len(pods) == 7
    assert HOST not in pods


def test_the_log_of_a_run_before_a_restart_is_the_previous_one() -> None:
    status = restarted(1, name="ray-head")
    status["containerStatuses"][0]["lastState"]["terminated"]["reason"] = "Error"
    (problem,) = Scene().changed(HEAD, status=status).examined().every_problem
    assert problem.command == "kubectl logs -n team llama-head -c ray-head -p"


def test_workers_that_started_after_the_restart_of_the_head_belong_to_it() -> None:
    scene = Scene().changed(HEAD, status=OUTLIVED)
    scene.changed(*scene.workers, status=restarted(1, 540))
    assert scene.ids() == []


def test_a_head_that_was_replaced_has_lost_the_same() -> None:
    scene = Scene().changed(HEAD, metadata={"creationTimestamp": instant(300)})
    assert scene.ids() == ["head-restarted"]
    assert "head-restarted" not in scene.changed(HEAD, status=unready(60)).ids()


@pytest.mark.parametrize("overlay", [
    {"spec": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}},
    {"metadata": {"annotations": {"ray.io/ft-enabled": "true"}}},
])  # fmt: skip
def test_a_gcs_that_is_fault_tolerant_loses_nothing(overlay: dict[str, Any]) -> None:
    scene = Scene().changed(HEAD, status=OUTLIVED)
    scene.cluster = merged(scene.cluster, overlay)
    assert scene.ids() == []


def test_replicas_of_another_number_of_hosts_are_not_complete() -> None:
    hosts = ",".join(f"tpu-0-{host}.llama-headless" for host in range(4))
    scene = Scene(llama(replicas=1)).without("llama-tpu-worker-0-2", HOST)
    scene.with_env("llama-tpu-worker-0-0", TPU_WORKER_HOSTNAMES=hosts)
    scene.cluster["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
    cluster_report = scene.examined()
    (problem,) = cluster_report.every_problem
    assert (problem.id, problem.level) == ("hosts-changed", "error")
    assert problem.change is not None
    assert problem.change.command.startswith("kubectl delete pod -n team llama-tpu-worker-0-0 ")
    assert cluster_report.is_degraded
    assert [each.state for each in cluster_report.clusters[0].groups[0].replicas] == ["degraded"]


AVAILABLE = "0/9 nodes are available: {}. preemption: 0/9 nodes are available."
MASTER = "1 node(s) had untolerated taint(s) {node-role.kubernetes.io/control-plane: }, "
COLUMNS = "kubectl get nodes -o custom-columns=NAME:.metadata.name,"
SENTENCES: dict[str, tuple[str, str, str]] = {
    "a claim that is not bound": ("pod has unbound immediate PersistentVolumeClaims",
     "check that the PersistentVolumeClaim exists", "kubectl describe pvc -n team weights"),
    "a claim that does not exist": ('persistentvolumeclaim "weights" not found',
     "check that the PersistentVolumeClaim exists", "kubectl describe pvc -n team weights"),
    "a volume in another zone": (MASTER + "8 node(s) had volume node affinity conflict",
     "check that the PersistentVolumeClaim exists", "kubectl describe pvc -n team weights"),
    "devices of DRA": ("9 cannot allocate all claims", "check the ResourceClaims",
     "kubectl describe resourceclaims -n team"),
    "amounts": (MASTER + "8 Insufficient google.com/tpu", "add nodes with google.com/tpu",
     COLUMNS + r"google.com/tpu:.status.allocatable.google\.com/tpu"),
    "amounts on nodes of others": (
     "3 node(s) had untolerated taint {team: b}, 6 Insufficient cpu, 1 Insufficient memory",
     "add nodes with cpu, memory, free some",
     COLUMNS + "cpu:.status.allocatable.cpu,memory:.status.allocatable.memory"),
    "a taint of the nodes with the devices": (
     "3 node(s) had untolerated taint {google.com/tpu: present}, 6 Insufficient google.com/tpu",
     "add a toleration for google.com/tpu=present", COLUMNS + "TAINTS:.spec.taints"),
    "a taint": (MASTER + "8 node(s) had untolerated taint {dedicated: b}",
     "add a toleration for dedicated=b", COLUMNS + "TAINTS:.spec.taints"),
    "labels": (MASTER + "8 node(s) didn't match Pod's node affinity/selector",
     "add nodes with the labels",
     f"kubectl get nodes -L {names.NODE_TPU_ACCELERATOR},{names.NODE_TPU_TOPOLOGY}"),
    "other pods": ("9 node(s) didn't match pod affinity rules", "add nodes in the domain",
     "kubectl get pods -n team -o wide"),
    "ports": ("9 node(s) didn't have free ports for the requested pod ports", "remove hostPort",
     f"kubectl get pod -n team {HOST} -o yaml"),
    "pods": ("9 Too many pods", "add nodes, or raise the maximum number of pods",
     COLUMNS + "PODS:.status.allocatable.pods"),
    "topology spread": ("9 node(s) didn't match pod topology spread constraints",
     "add nodes in the other domains", f"kubectl get pod -n team {HOST} -o yaml"),
    "cordoned nodes": ("9 node(s) were unschedulable", "uncordon the nodes", "kubectl get nodes"),
}  # fmt: skip


def without_node(message: str) -> Scene:
    """Return a scene with a pod without a node, and the message of the scheduler."""
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": instant(TEN_MINUTES)}  # fmt: skip
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]
    spec = {"nodeName": None, "volumes": volumes}
    return Scene().changed(HOST, spec=spec, status={"phase": "Pending", "conditions": [condition]})


@pytest.mark.parametrize(("part", "remedy", "command"), SENTENCES.values(), ids=SENTENCES)
def test_every_sentence_of_the_scheduler_has_a_remedy(part: str, remedy: str, command: str) -> None:
    (problem,) = without_node(AVAILABLE.format(part)).examined().every_problem
    assert problem.id == "pod-pending"
    assert problem.remedy.startswith(remedy)
    assert problem.command == command


def test_a_cluster_without_nodes_is_distinguished_from_one_that_is_full() -> None:
    message = "0/0 nodes are available: . preemption: 0/0 nodes are available."
    (problem,) = without_node(message).examined().every_problem
    assert problem.remedy == "add nodes: the cluster has none"
    assert problem.command == "kubectl get nodes"
