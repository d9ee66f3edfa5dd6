"""Any state: what stays incomplete is an error, what is complete is none, whenever it is asked."""

import copy
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.harness.scenes import NOW, Object, Scene, instant, llama, llama_of
from tests.webhook.diagnostics.test_causes import QUOTA
from webhook.api import names
from webhook.diagnostics.examination import DIAGNOSES

LONGEST = int(max(each.seconds for each in DIAGNOSES))
"""The longest delay of a diagnosis, in seconds."""
HEAD = "llama-head"
HOSTS = tuple(f"llama-tpu-0-worker-0-{host}" for host in range(4))
RAY = {HEAD: "ray-head"} | dict.fromkeys(HOSTS, "ray-worker")
POLICIES = ("Always", "OnFailure", "Never")
CODES = {0: "Completed", 1: "Error", 137: "OOMKilled"}
REASONS = (
    "ContainerCreating", "PodInitializing", "CrashLoopBackOff", "ImagePullBackOff",
    "CreateContainerConfigError",
)  # fmt: skip
OLD = st.integers(LONGEST + 60, 2 * LONGEST)
"""Seconds since which a state has lasted."""


class Container(NamedTuple):
    """The state of a container: a word, the seconds since then, and its detail."""

    state: str = "ready"
    ago: int = 2 * LONGEST
    code: int = 0
    reason: str = REASONS[0]
    restarts: int = 0

    def status(self, name: str) -> Object:
        begun, end = {"startedAt": instant(self.ago)}, self._end()
        states: dict[str, Object] = {
            "waiting": {"waiting": {"reason": self.reason}},
            "ended": {"terminated": end},
        }
        return {
            "name": name, "state": states.get(self.state, {"running": begun}),
            "lastState": {"terminated": end} if self.restarts else {},
            "restartCount": self.restarts, "started": self.state in ("ready", "unready"),
            "ready": self.state == "ready"}  # fmt: skip

    def _end(self) -> Object:
        started = instant(self.ago + 30)
        end = {"reason": CODES[self.code], "exitCode": self.code, "startedAt": started}
        return end | {"finishedAt": instant(self.ago)}


class PodState(NamedTuple):
    """The state of a pod: a word, the seconds since then, and its containers: Ray's, one beside
    it, an init container, and a sidecar; None if the pod does not have it.
    """

    state: str = "runs"
    ago: int = 2 * LONGEST
    ray: Container = Container()
    beside: Container | None = None
    init: Container | None = None
    sidecar: Container | None = None
    policy: str = "Always"
    serves: bool = False
    condition: bool = True
    node: str = "ready"

    @property
    def done(self) -> bool:
        """Whether the container beside Ray's has ended, and is not to run again."""
        found = self.beside
        return bool(found and found.state == "ended" and not found.code and self.policy != "Always")

    @property
    def kubelet_ready(self) -> bool:
        """Whether kubelet reports the pod as ready."""
        rest = (self.ray, self.beside, self.sidecar)
        return self.initialized and all(each is None or each.state == "ready" for each in rest)

    @property
    def initialized(self) -> bool:
        init = self.init
        return init is None or (init.state == "ended" and not init.code)

    def complete(self, *, head: bool) -> bool:
        """Whether nothing is missing in the pod, as a person would say."""
        ray = self.ray.state == "ready" or (
            self.ray.state == "unready" and self.serves and not head
        )
        beside = self.beside is None or self.beside.state == "ready" or self.done
        sidecar = self.sidecar is None or self.sidecar.state == "ready"
        runs = self.state == "runs" and self.node in ("ready", "cordoned")
        return runs and self.initialized and ray and beside and sidecar

    def play(self, scene: Scene, pod: str) -> None:
        if self.state == "absent":
            scene.without(pod)
            return
        node = next(each for each in scene.nodes if each["metadata"]["name"] == self._node(pod))
        if self.node == "absent":
            scene.nodes.remove(node)
        elif self.node != "ready":
            condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": self._since}
            node["spec"] = {"unschedulable": self.node == "cordoned"}
            node["status"] = {"conditions": [condition] if self.node == "lost" else []}
        if self.state == "doubled":
            scene.copied(pod, f"{pod}-9kx2p")
            return
        scene.changed(pod, **getattr(self, f"_{self.state}")(pod))

    @property
    def _since(self) -> str:
        return instant(self.ago)

    def _node(self, pod: str) -> str:
        return f"node-{pod.removeprefix('llama-tpu-0-worker-').removeprefix('llama-')}"

    def _conditions(self, *, ready: bool) -> list[Object]:
        status = "True" if ready else "False"
        if not ready and not self.condition:
            return []
        return [{"type": "Ready", "status": status, "lastTransitionTime": self._since}]

    def _runs(self, pod: str) -> Object:
        inits = {"load": self.init, "proxy": self.sidecar}
        statuses = {RAY[pod]: self.ray, "beside": self.beside}
        started = self.initialized
        return {
            "metadata": {"labels": {names.LABEL_SERVE: "true"} if self.serves else {}},
            "spec": {"restartPolicy": self.policy},
            "status": {
                "phase": "Running" if started else "Pending",
                "conditions": self._conditions(ready=self.kubelet_ready),
                "initContainerStatuses": _statuses(inits),
                "containerStatuses": _statuses(
                    statuses if started else dict.fromkeys(statuses, Container("waiting"))
                ),
            },
        }

    def _pending(self, _pod: str) -> Object:
        condition = {
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/9 nodes are available: 9 Insufficient google.com/tpu.",
            "lastTransitionTime": self._since}  # fmt: skip
        conditions = [condition] if self.condition else []
        return {
            "spec": {"nodeName": None},
            "status": {"phase": "Pending", "conditions": conditions},
        }

    def _gated(self, pod: str) -> Object:
        gates = [{"name": "kueue.x-k8s.io/topology"}]
        return self._pending(pod) | {"spec": {"nodeName": None, "schedulingGates": gates}}

    def _grouped(self, pod: str) -> Object:
        group = {"podGroupName": "llama-worker-tpu"}
        return self._pending(pod) | {"spec": {"nodeName": None, "schedulingGroup": group}}

    def _ended(self, _pod: str) -> Object:
        phase = "Failed" if self.ray.code else "Succeeded"
        return {"status": {"phase": phase, "conditions": self._conditions(ready=False)}}

    def _leaves(self, _pod: str) -> Object:
        deletion = {"deletionTimestamp": self._since, "deletionGracePeriodSeconds": 30}
        return {"metadata": deletion}


def _statuses(containers: dict[str, Container | None]) -> list[Object]:
    return [each.status(name) for name, each in containers.items() if each is not None]


class State(NamedTuple):
    """The state of a RayCluster: its pods, and what it says besides."""

    head: PodState = PodState()
    hosts: Sequence[PodState] = (PodState(),) * 4
    pod_group: bool = False
    refused: int | None = None
    owner: str = ""

    @property
    def complete(self) -> bool:
        hosts = all(host.complete(head=False) for host in self.hosts)
        return self.head.complete(head=True) and hosts and not self.restarted

    @property
    def restarted(self) -> bool:
        """Whether Ray's containers have restarted, which may lose what ran in them."""
        return any(each.ray.restarts for each in (self.head, *self.hosts))

    def scene(self) -> Scene:
        scene = Scene.__new__(Scene)
        scene.__dict__.update(copy.deepcopy(_well()))
        pods = zip((HEAD, *HOSTS), (self.head, *self.hosts), strict=True)
        for pod, state in pods:
            state.play(scene, pod)
        if self.pod_group:
            spec = {"schedulingPolicy": {"gang": {"minCount": 4}}}
            meta = {"name": "llama-worker-tpu", "namespace": "team"}
            scene.pod_groups.append({"metadata": meta, "spec": spec})
        if self.refused is not None:
            scene.event("FailedToCreateWorkerPod", "llama", self.refused, message=QUOTA)
        if self.owner:
            _own(scene, self.owner)
        return scene


OWNERS = {
    "job": {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"},
    "succeeded": {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"},
    "unstarted": {"jobDeploymentStatus": "Running", "startTime": instant(2 * LONGEST)},
    "failed": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "reason": "AppFailed"},
}


def _own(scene: Scene, owner: str) -> None:
    reference = {"kind": names.RAYJOB_KIND, "name": "train", "uid": "u", "controller": True}
    scene.cluster["metadata"]["ownerReferences"] = [reference]
    meta = {"name": "train", "namespace": "team", "uid": "u"}
    scene.ray_jobs.append({"metadata": meta, "status": OWNERS[owner]})


@cache
def _well() -> Object:
    template = llama().build()["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    inits = [{"name": "load"}, {"name": "proxy", "restartPolicy": "Always"}]
    containers = [*template["containers"], {"name": "beside"}]
    spec = {"initContainers": inits, "containers": containers}
    scene = Scene(llama_of({"spec": spec}, 1))
    scene.changed(HEAD, spec={"initContainers": inits})
    return vars(scene)


def containers(*, needed: bool) -> st.SearchStrategy[Container | None]:
    """Return any state of a container; also none, unless it is needed."""
    state = st.builds(
        Container, st.sampled_from(["ready", "unready", "starting", "waiting", "ended"]), OLD,
        st.sampled_from(list(CODES)), st.sampled_from(REASONS),
        st.sampled_from([0, 0, 0, 3]))  # fmt: skip
    usual = st.just(Container())
    return usual | state if needed else st.none() | usual | state


INITS = st.none() | st.builds(
    Container, st.sampled_from(["unready", "waiting", "ended"]), OLD, st.sampled_from(list(CODES))
)
STATES = st.builds(
    PodState,
    st.sampled_from(["runs"] * 6 + [
        "pending", "gated", "grouped", "ended", "absent", "leaves", "doubled"]),
    OLD, containers(needed=True), containers(needed=False), INITS, containers(needed=False),
    st.sampled_from(POLICIES), st.booleans(), st.booleans(),
    st.sampled_from(["ready", "ready", "ready", "cordoned", "lost", "absent"]))  # fmt: skip
PODS = st.just(PodState()) | STATES
CLUSTERS = st.builds(
    State, PODS, st.tuples(*[PODS] * len(HOSTS)), st.booleans(),
    st.none() | st.integers(0, 2 * LONGEST), st.sampled_from(["", "", *OWNERS]))  # fmt: skip
DONE = PodState(beside=Container("ended"), policy="Never")
WAITS = PodState(init=Container("unready"), policy="Never")


@settings(max_examples=200)
@example(State(hosts=(DONE,) * 4))
@example(State(head=DONE, hosts=(WAITS,) * 4))
@example(State(hosts=(PodState(ray=Container("unready"), serves=True),) * 4))
@example(State(hosts=(PodState(state="gated"),) * 4))
@example(State(head=PodState(state="doubled")))
@example(State(head=PodState(init=Container("ended", restarts=2))))
@example(State(head=PodState(sidecar=Container("ended"), policy="OnFailure")))
@example(State(hosts=(PodState(node="absent"),) * 4))
@given(CLUSTERS)
def test_a_state_that_lasts_is_an_error_unless_nothing_is_missing(state: State) -> None:
    cluster_report = state.scene().examined()
    complete = state.complete and state.owner not in ("failed", "unstarted")
    if complete or not state.restarted:
        assert cluster_report.is_degraded == (not complete), cluster_report.every_problem


@settings(max_examples=50)
@given(CLUSTERS, st.integers(1, 600))
def test_a_state_that_lasts_has_one_answer(state: State, seconds: int) -> None:
    scene = state.scene()
    if state.refused is not None:
        scene.events = []
    assert scene.ids() == scene.ids(NOW + seconds)
