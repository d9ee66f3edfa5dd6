"""Problems in a real cluster: reported by `ray-webhook status`, on an open page of the dashboard
and as events, until the fix.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.e2e import build, needs
from tests.e2e.api import (
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    SERVICES,
    Api,
    ApiError,
    Json,
    Objects,
    Resource,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.dashboard_process import Dashboard, Problems, by_cluster, every_problem
from tests.e2e.gangs import grouped
from tests.e2e.google_webhook_process import configuration
from tests.e2e.installation import WITH_CONTROLLER
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    IDENTITY,
    events_of,
    of_replica,
    slices,
    wait_for_workers,
    with_identity,
    worker_of,
    workers,
)
from tests.e2e.scheduling.nodes import bind
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness.ray_objects import a_job
from webhook.api import names
from webhook.cli.main import main

pytestmark = pytest.mark.e2e

NAMESPACE = "seen"
LATER = 150.0
"""Seconds after which every diagnosis counts; the story does not wait for them."""

READY, UNREADY = ({"type": "Ready", "status": status} for status in ("True", "False"))
POOLS = ("one", "other")
TIMES = 20
"""How often a story asks the same, which has one answer."""
REPETITIONS = 6
"""How often what a story asks about is repeated meanwhile at least."""
POLICIES = Resource(
    "admissionregistration.k8s.io/v1", "validatingadmissionpolicies", namespaced=False
)
POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", namespaced=False
)
QUOTA = "exceeded quota: tpus, requested: google.com/tpu=4, used: google.com/tpu=8"


@pytest.fixture(scope="module")
def refused(control_plane: ControlPlane) -> Json:
    """A RayCluster that was there before the webhook, and whose pods the webhook refuses."""
    control_plane.namespace(NAMESPACE)
    cluster = slices("refused", 1)
    template = cluster["spec"]["workerGroupSpecs"][0]["template"]
    template["spec"]["nodeSelector"][names.NODE_TPU_TOPOLOGY] = "4x4x4"
    return control_plane.api.create(RAY_CLUSTERS, cluster, NAMESPACE)


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook, and the controller that writes events."""
    with Webhook(control_plane, [WITH_CONTROLLER]) as running:
        yield running


@dataclass
class Setup:
    """The cluster, as a person at a terminal has it."""

    plane: ControlPlane
    capture: pytest.CaptureFixture[str]

    @property
    def api(self) -> Api:
        return self.plane.api

    def status(self) -> tuple[int, Json]:
        code = self.run("status", "-o", "json")
        return code, json.loads(self.capture.readouterr().out)

    def run(self, *arguments: str) -> int:
        self.capture.readouterr()
        where = ("-n", NAMESPACE, "--kubeconfig", str(self.plane.admin_kubeconfig))
        return main([*arguments, *where])

    def problems(self) -> Problems:
        return by_cluster(self._problems(), NAMESPACE)

    def heal(self) -> None:
        """Do what every problem asks for: its change, and by hand what has none."""
        kubectl = f"{build.binary('kubectl')} --kubeconfig={self.plane.admin_kubeconfig} "
        for command in {_remedy_of(each) for each in self._problems()} - {""}:
            done = subprocess.run(  # noqa: S602 - it is what a person would paste
                command.replace("kubectl ", kubectl)
                + (" --wait=false" if "delete" in command else ""),
                shell=True,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            overtaken = (
                "NotFound" in done.stderr or "already exists" in done.stderr
            )  # KubeRay was faster
            assert done.returncode == 0 or overtaken, done.stderr

    def let_run(self) -> None:
        """Play scheduler, kubelet and node pools: pods end or run on a node of one pool."""
        for pod in self.api.list(PODS, NAMESPACE):
            with suppress(ApiError):  # KubeRay has deleted it by now
                self._let_run(pod)

    def _let_run(self, pod: Json) -> None:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            self.api.delete(PODS, meta["name"], NAMESPACE, grace=0)
            return
        if not pod["spec"].get("nodeName"):
            bind(self.api, meta["name"], NAMESPACE, POOLS[0])
        ready = [{"type": "PodScheduled", "status": "True"}, READY]
        containers: Json = {"containerStatuses": [], "initContainerStatuses": []}
        status = {"phase": "Running", "conditions": ready} | containers
        report(self.api, meta["name"], status)

    def _problems(self) -> Objects:
        return every_problem(self.status()[1])


@pytest.fixture
def setup(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setup]:
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + LATER)
    for pool in POOLS:
        control_plane.api.create(
            NODES, {"metadata": {"name": pool, "labels": {names.NODE_POOL: pool}}}
        )
    yield Setup(control_plane, capsys)
    for pool in POOLS:
        control_plane.api.delete(NODES, pool)


def report(api: Api, pod: str, status: Json) -> None:
    api.set_status(PODS, pod, status, NAMESPACE)


def of(api: Api, cluster: str, host: int = 3) -> Json:
    return with_identity(workers(api, NAMESPACE, cluster), 0, host)


def name_of(api: Api, cluster: str, host: int = 3) -> str:
    return str(of(api, cluster, host)["metadata"]["name"])


def remove(api: Api, cluster: str) -> Json:
    pod = of(api, cluster)
    api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace=0)
    return pod


def replacement(api: Api, cluster: str) -> Json:
    remove(api, cluster)
    return worker_of(api.get(RAY_CLUSTERS, cluster, NAMESPACE))


def start(api: Api, pod: Json, pool: str) -> None:
    name = api.create(PODS, pod, NAMESPACE)["metadata"]["name"]
    bind(api, name, NAMESPACE, pool)
    report(api, name, {"phase": "Running", "conditions": [READY]})


def change(api: Api, cluster: str, **metadata: Json) -> None:
    api.patch(PODS, name_of(api, cluster), {"metadata": metadata}, NAMESPACE)


def change_group(api: Api, cluster: str, **fields: object) -> None:
    (group,) = api.get(RAY_CLUSTERS, cluster, NAMESPACE)["spec"]["workerGroupSpecs"]
    api.patch(RAY_CLUSTERS, cluster, {"spec": {"workerGroupSpecs": [group | fields]}}, NAMESPACE)


def container(name: str = "ray-worker", restarts: int = 0, **fields: object) -> Json:
    status = {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": restarts}
    return status | fields


def text_of(seconds_ago: float = 0) -> str:
    return f"{datetime.fromtimestamp(time.time() - seconds_ago, UTC):%Y-%m-%dT%H:%M:%SZ}"


def lose_host(api: Api) -> None:
    remove(api, "lacking")


def lose_identity(api: Api) -> None:
    """A pod has no identity, as if it had been created while the webhook was away."""
    change(api, "unidentified", labels=dict.fromkeys(IDENTITY))


def lose_group(api: Api) -> None:
    change(api, "ungrouped", labels={"ray.io/group": "former"})


def double(api: Api) -> None:
    """A pod says the identity of another."""
    change(api, "double", labels={names.LABEL_HOST_INDEX: "2"})


def split(api: Api) -> None:
    """A host runs in another node pool than the rest: its Node was moved there."""
    pod = remove(api, "split")
    again = {key: pod["metadata"][key] for key in ("generateName", "labels", "ownerReferences")}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    start(api, {"metadata": again, "spec": spec}, POOLS[1])


def shrink(api: Api) -> None:
    """The group should have one replica less than it has."""
    change_group(api, "surplus", replicas=1)


def change_hosts(api: Api) -> None:
    change_group(api, "resized", numOfHosts=2)


def renumber(api: Api) -> None:
    """A job over three slices should be one over two, and KubeRay has deleted the second."""
    change_group(api, "renumbered", **multi_slice(2)["spec"]["workerGroupSpecs"][0])
    for pod in of_replica(workers(api, NAMESPACE, "renumbered"), 1):
        api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace=0)


def multi_slice(replicas: int) -> Json:
    cluster = slices("renumbered", replicas)
    (group,) = cluster["spec"]["workerGroupSpecs"]
    (ray,) = group["template"]["spec"]["containers"]
    ray["env"] = [{"name": "MEGASCALE_NUM_SLICES", "value": str(replicas)}]
    return cluster


def misplace(api: Api) -> None:
    """A pod brings a host name and a place of its own, and the webhook leaves what people set."""
    pod = replacement(api, "misplaced")
    pod["spec"]["hostname"] = "mine"
    pod["spec"]["containers"][0]["env"].append({"name": "TPU_WORKER_ID", "value": "7"})
    start(api, pod, POOLS[0])


def crowd_out(api: Api) -> None:
    made = api.create(PODS, replacement(api, "crowded"), NAMESPACE)
    message = "0/2 nodes are available: 2 Insufficient google.com/tpu."
    words = {"reason": "Unschedulable", "message": message}
    condition = {"type": "PodScheduled", "status": "False", **words}
    report(api, made["metadata"]["name"], {"phase": "Pending", "conditions": [condition]})


def lose_image(api: Api) -> None:
    message = 'Back-off pulling image "rayproject/ray:nightly"'
    waiting = {"reason": "ImagePullBackOff", "message": message}
    containers = [container(state={"waiting": waiting})]
    status = {"phase": "Pending", "conditions": [UNREADY], "containerStatuses": containers}
    report(api, name_of(api, "imageless"), status)


def crash(api: Api) -> None:
    """An init container that KubeRay adds ends again and again, without memory."""
    ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": None, "finishedAt": None}
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s"}}
    containers = [container("wait-gcs-ready", 7, state=state, lastState={"terminated": ended})]
    status = {"phase": "Pending", "conditions": [UNREADY], "initContainerStatuses": containers}
    report(api, name_of(api, "crashing"), status)


def gate(api: Api) -> None:
    """Kueue does not choose the node of a pod."""
    pod = replacement(api, "gated")
    pod["spec"]["schedulingGates"] = [{"name": names.KUEUE_GATE_TOPOLOGY}]
    api.create(PODS, pod, NAMESPACE)


def end_pod(api: Api) -> None:
    words = {"reason": "Evicted", "message": "The node was low on resource: memory."}
    report(api, name_of(api, "evicted"), {"phase": "Failed", "conditions": [UNREADY], **words})


def hang_start(api: Api) -> None:
    """A pod has not become ready for an hour."""
    unready = UNREADY | {"lastTransitionTime": text_of(3600)}
    report(api, name_of(api, "unready"), {"phase": "Running", "conditions": [unready]})


def defer_resize(api: Api) -> None:
    words = {"reason": "Deferred", "message": "not enough cpu"}
    pending = {"type": "PodResizePending", "status": "True", **words}
    report(api, name_of(api, "deferred"), {"conditions": [READY, pending]})


def fail_resize(api: Api) -> None:
    status = json.dumps({"last-failed-at": int(time.time()), "last-failed-reason": "timed out"})
    change(api, "unresized", annotations={"ray.io/ippr-status": status})


def restart_host(api: Api) -> None:
    """Ray's container of one host ended, and kubelet started it again."""
    pod, at = of(api, "restarted"), text_of()
    ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": at, "finishedAt": at}
    states = {"state": {"running": {"startedAt": at}}, "lastState": {"terminated": ended}}
    ray = container(pod["spec"]["containers"][0]["name"], 1, ready=True, **states)
    report(api, pod["metadata"]["name"], {"containerStatuses": [ray]})


def lose_service(api: Api) -> None:
    api.delete(SERVICES, "nameless-headless", NAMESPACE)


def lose_head(api: Api) -> None:
    api.delete_all(PODS, NAMESPACE, "ray.io/cluster=headless,ray.io/node-type=head")


def lose_replica(api: Api) -> None:
    api.delete_all(PODS, NAMESPACE, "ray.io/cluster=gone,ray.io/node-type=worker")


def add_webhook(api: Api) -> None:
    client = {"url": "https://127.0.0.1:1/mutate"}
    entries = configuration(client, failurePolicy="Ignore", timeoutSeconds=1)
    api.create(MUTATING_WEBHOOKS, entries)


def _remedy_of(problem: Json) -> str:
    """The command that a person decides on, nothing where KubeRay does it."""
    if problem["id"] == "second-webhook":
        return str(problem["command"]).replace(" get ", " delete ").replace(" -o yaml", "")
    if problem["id"] == "pod-gated":
        return f"kubectl delete pod -n {NAMESPACE} {' '.join(problem['pods'])}"
    if problem["id"] == "resize-failed":
        return str(problem["command"]).replace(" describe ", " delete ")
    if problem["id"] == "ignored":
        command = str(problem["command"]).replace(" get ", " label ")
        return command.replace("--show-labels", "admission.ray.io/ignore-")
    if problem["id"] in ("replica-beyond-desired", "pod-without-group"):
        return str(problem["command"]).replace(" get ", " delete ").replace(" -o wide", "")
    return str(problem.get("change", {}).get("command", ""))


PROVOKED: tuple[tuple[Callable[[Api], None], str, set[str]], ...] = (
    (lose_host, "lacking", {"host-missing"}),
    (lose_identity, "unidentified", {"pod-without-identity"}),
    (double, "double", {"identity-duplicate"}), (lose_group, "ungrouped", {"pod-without-group"}),
    (split, "split", {"replica-split"}), (shrink, "surplus", {"replica-beyond-desired"}),
    (change_hosts, "resized", {"hosts-changed"}), (renumber, "renumbered", {"slice-left-out"}),
    (misplace, "misplaced", {"worker-id-differs"}), (crowd_out, "crowded", {"pod-pending"}),
    (lose_image, "imageless", {"container-not-running"}),
    (crash, "crashing", {"container-not-running"}), (gate, "gated", {"pod-gated"}),
    (end_pod, "evicted", {"pod-ended"}), (hang_start, "unready", {"pod-not-ready"}),
    (defer_resize, "deferred", {"resize-stuck"}), (fail_resize, "unresized", {"resize-failed"}),
    (restart_host, "restarted", {"host-restarted"}),
    (lose_service, "nameless", {"headless-service-missing"}),
    (lose_head, "headless", {"head-missing"}), (lose_replica, "gone", {"replica-missing"}),
    (add_webhook, "", {"second-webhook"}),
)  # fmt: skip


def test_what_is_wrong_is_seen_and_gone_after_its_remedy(
    refused: Json, webhook: Webhook, setup: Setup
) -> None:
    needs.HEADLESS_SERVICE.ask()
    controller = webhook.controller
    api, replicas = setup.api, {"surplus": 2, "renumbered": 3}
    others = {"resized": grouped("resized", {"cpu": (1, HOSTS)}, {}), "renumbered": multi_slice(3)}
    clusters = [name for _, name, _ in PROVOKED if name]
    with (
        Operator(setup.plane, multi_host_indexing=False) as operator,
        Dashboard(setup.plane) as dashboard,
        dashboard.open_page(NAMESPACE) as page,
    ):
        for name in clusters:
            usual = slices(name, replicas.get(name, 1))
            api.create(RAY_CLUSTERS, others.get(name, usual), NAMESPACE)
        ignored_cluster = slices("ignored", 1)
        ignored_cluster["metadata"]["labels"] = {"admission.ray.io/ignore": "true"}
        api.create(RAY_CLUSTERS, ignored_cluster, NAMESPACE)
        for name in (*clusters, "ignored"):
            wait_for_workers(api, NAMESPACE, HOSTS * replicas.get(name, 1), name)
        until(
            lambda: "pod-refused" in setup.problems().get("refused", ()),
            "KubeRay tells of a refusal",
        )
        setup.let_run()
        wanted = {"refused": {"pod-refused"}, "ignored": {"ignored"}}
        until_equal(setup.problems, wanted, "the terminal says so")
        until_equal(lambda: page.problems(NAMESPACE), wanted, "the page says so")

        operator.stop()
        for provoke, _, _ in PROVOKED:
            provoke(api)
        wanted |= {name: ids for _, name, ids in PROVOKED}
        until_equal(setup.problems, wanted, "the terminal says all of it")
        assert [setup.problems() for _ in range(TIMES)] == [wanted] * TIMES
        assert setup.status()[0] == 1
        assert setup.run("check") == 1
        assert "kuberay-tpu-webhook.ray-system.svc (of " in setup.capture.readouterr().out

        until(lambda: not _missing_events(api), "each RayCluster gets its events", 400)
        until_equal(lambda: page.problems(NAMESPACE), wanted, "the page says all of it")
        until_equal(partial(dashboard.problems, NAMESPACE), wanted, "JSON says all of it")
        named = {name for name, _ in EVENTS[:-1]}
        until(lambda: controller.problems(NAMESPACE).keys() > named, "the metrics count them")

        template = refused["spec"]["workerGroupSpecs"][0]["template"]
        template["spec"]["nodeSelector"][names.NODE_TPU_TOPOLOGY] = "2x2x4"
        change_group(api, "refused", template=template)
        operator.start()
        nothing: Problems = {}
        until_equal(
            partial(_after_remedies, setup), nothing, "every remedy is done and has helped", 400
        )
        until(lambda: events_of(api, NAMESPACE, "ReplicaComplete"), "replicas are complete again")
        until_equal(lambda: page.problems(NAMESPACE), nothing, "nothing is left on the page")
        until_equal(partial(dashboard.problems, NAMESPACE), nothing, "nor is it in JSON")
        until_equal(lambda: controller.problems(NAMESPACE), nothing, "nothing is left to tell")
    assert setup.run("check") == 0
    for name in (*clusters, "ignored", "refused"):
        setup.plane.delete_ray_cluster(name, NAMESPACE)


EVENTS: tuple[tuple[str, str], ...] = (
    ("unidentified", "PodWithoutIdentity"), ("double", "IdentityDuplicate"),
    ("misplaced", "WorkerIdDiffers"), ("split", "ReplicaSplit"), ("restarted", "HostRestarted"),
    ("unresized", "PodResizeFailed"), ("lacking", "HostMissing"), ("nameless", "SecondWebhook"),
)  # fmt: skip
"""RayClusters of the story, and the events that each gets."""


def _missing_events(api: Api) -> list[tuple[str, str]]:
    return [
        (name, reason)
        for name, reason in EVENTS
        if name not in {each["regarding"]["name"] for each in events_of(api, NAMESPACE, reason)}
    ]


def _after_remedies(setup: Setup) -> Problems:
    setup.heal()
    setup.let_run()
    return setup.problems()


def test_a_rejection_that_kuberay_repeats_has_one_answer(
    webhook: Webhook, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    assert webhook.ready
    setup, api = Setup(control_plane, capsys), control_plane.api
    control_plane.namespace(NAMESPACE)
    api.create(POLICIES, full("full"))
    binding = {"policyName": "full", "validationActions": ["Deny"]}
    api.create(POLICY_BINDINGS, {"metadata": {"name": "full"}, "spec": binding})
    host: Json = {"containers": [{"name": "ray-worker", "image": "ray"}]}
    labels = {"ray.io/cluster": "full", names.LABEL_HOST_INDEX: "2"}
    pod = {"metadata": {"generateName": "full-", "labels": labels}, "spec": host}
    until(lambda: QUOTA in api.refusal(PODS, pod, NAMESPACE), "the API server enforces the policy")
    with Operator(control_plane, multi_host_indexing=True):
        api.create(RAY_CLUSTERS, slices("full", 1), NAMESPACE)
        until(lambda: "pod-refused" in setup.problems().get("full", ()), "the quota is full")
        created: set[str] = set()

        def repetitions() -> int:
            created.update(each["metadata"]["uid"] for each in workers(api, NAMESPACE, "full"))
            return len(created)

        problem = one_answer(setup, "full", "pod-refused", repetitions)
        assert QUOTA in problem["message"]
        assert problem["command"] == f"kubectl describe resourcequota -n {NAMESPACE}"
    api.delete(POLICY_BINDINGS, "full")
    api.delete(POLICIES, "full")
    control_plane.delete_ray_cluster("full", NAMESPACE)


def one_answer(setup: Setup, cluster: str, wanted: str, repetitions: Callable[[], int]) -> Json:
    """Ask for the problems until what repeats has done so; return the only one of all answers."""
    asked, before = 0, repetitions()
    problems: Objects = []

    def is_over() -> bool:
        nonlocal asked, problems
        code, cluster_report = setup.status()
        problems = [
            each for each in every_problem(cluster_report) if each.get("cluster") == cluster
        ]
        assert (code, [each["id"] for each in problems]) == (1, [wanted]), asked
        asked += 1
        return repetitions() >= before + REPETITIONS and asked >= TIMES

    until(is_over, f"{wanted} is asked for while it repeats")
    return problems[0]


def test_a_container_that_ends_again_and_again_has_one_answer(
    webhook: Webhook, setup: Setup
) -> None:
    assert webhook.ready
    api, plays = setup.api, 0
    setup.plane.namespace(NAMESPACE)
    with Operator(setup.plane):
        api.create(RAY_CLUSTERS, slices("looping", 1), NAMESPACE)
        wait_for_workers(api, NAMESPACE, HOSTS, "looping")
        setup.let_run()
        until(lambda: not setup.problems().get("looping"), "the pods are ready")

        def play() -> int:
            nonlocal plays
            report(api, name_of(api, "looping"), looping(plays))
            plays += 1
            return plays

        problem = one_answer(setup, "looping", "container-not-running", play)
        assert "ray-worker: Error, exit code 1" in problem["message"]
    setup.plane.delete_ray_cluster("looping", NAMESPACE)


def looping(play: int) -> Json:
    """A pod whose container starts, ends and is in back-off in turns, twenty seconds each time."""
    now, finished, started = (text_of(seconds) for seconds in (0, 5, 25))
    end = {"terminated": {"reason": "Error", "exitCode": 1}}
    end["terminated"] |= {"startedAt": started, "finishedAt": finished}
    states: Objects = [
        {"running": {"startedAt": now}},
        end,
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
    ]
    ready = play % len(states) == 0
    ray = container(restarts=3 + play // 3, ready=ready, lastState=end)
    ray["state"] = states[play % len(states)]
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
    return {"phase": "Running", "conditions": [condition], "containerStatuses": [ray]}


def test_a_rayjob_that_fails_has_one_answer_an_event_and_a_metric(
    webhook: Webhook, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = webhook.controller
    setup, api = Setup(control_plane, capsys), control_plane.api
    control_plane.namespace(NAMESPACE)
    job = a_job().spec(activeDeadlineSeconds=1, shutdownAfterJobFinishes=False).build()
    name = job["metadata"]["name"]
    with Operator(control_plane):
        api.create(RAY_JOBS, job, NAMESPACE)
        cluster = until(lambda: _cluster_of(api, name), "KubeRay creates the RayCluster")
        until(lambda: "job-failed" in setup.problems().get(cluster, ()), "its deadline is over")
        changes = 0

        def repetitions() -> int:
            """Change the RayJob, so that KubeRay reconciles it."""
            nonlocal changes
            changes += 1
            labels = {"metadata": {"labels": {"change": str(changes)}}}
            api.patch(RAY_JOBS, name, labels, NAMESPACE)
            return changes

        problem = one_answer(setup, cluster, "job-failed", repetitions)
        assert f"RayJob {name} has failed: DeadlineExceeded" in problem["message"]
        until(lambda: events_of(api, NAMESPACE, "RayJobFailed"), "the RayCluster is told")
        until(
            lambda: "job-failed" in controller.problems(NAMESPACE).get(cluster, ()), "it is counted"
        )
        api.delete(RAY_JOBS, name, NAMESPACE)
    control_plane.delete_ray_cluster(cluster, NAMESPACE)


def _cluster_of(api: Api, job: str) -> str:
    status = api.get(RAY_JOBS, job, NAMESPACE).get("status") or {}
    return str(status.get("rayClusterName") or "")


def full(name: str) -> Json:
    """A policy that stands in for a quota that is full in the second half of a replica."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    others = (
        f"!has(object.metadata.labels) || object.metadata.labels[?'ray.io/cluster'].orValue('') "
        f"!= '{name}' || int(object.metadata.labels[?'{names.LABEL_HOST_INDEX}'].orValue('0')) < 2"
    )
    return {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule | {"resources": ["pods"]}]},
            "validations": [{"expression": others, "message": QUOTA}],
        },
    }


def test_one_pod_is_explained_and_a_file_is_compared(
    webhook: Webhook, setup: Setup, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert webhook.ready
    api = setup.api
    setup.plane.namespace(NAMESPACE)
    with Operator(setup.plane):  # which gives identities itself
        api.create(RAY_CLUSTERS, slices("changed", 1), NAMESPACE)
        wait_for_workers(api, NAMESPACE, HOSTS, "changed")

        assert setup.run("explain", "pod", name_of(api, "changed")) == 0
        out = setup.capture.readouterr().out
        assert "host 3 of replica 0" in out
        assert "✓ TPU_WORKER_ID=3 in ray-worker" in out
        assert "✗ TPU" not in out

        file = tmp_path_factory.mktemp("files") / "changed.json"
        file.write_text(json.dumps(slices("changed", 1)))
        assert setup.run("diff", "-f", str(file)) == 0
        file.write_text(json.dumps(slices("changed", 2)))
        assert setup.run("diff", "-f", str(file)) == 1
        assert "tpu-group: created hosts, 4 hosts" in setup.capture.readouterr().out
    setup.plane.delete_ray_cluster("changed", NAMESPACE)
