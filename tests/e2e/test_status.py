"""Problems in a real cluster: reported by `ray-webhook status`, on an open page of the dashboard
and as events, until the fix.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.e2e import build, needs
from tests.e2e.api import (
    MUTATING_WEBHOOKS,
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
from tests.e2e.scheduling.nodes import bind, present
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness.ray_objects import a_job
from webhook.api import names

pytestmark = pytest.mark.e2e

NAMESPACE = "seen"
VALUES = [WITH_CONTROLLER]
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


@pytest.fixture
def later(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time at which every diagnosis counts, and a node in each of two pools."""
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + LATER)
    with ExitStack() as stack:
        for pool in POOLS:
            stack.enter_context(present(control_plane.api, [pool], {names.NODE_POOL: pool}))
        yield


def all_problems(plane: ControlPlane) -> Objects:
    return every_problem(plane.read_status(NAMESPACE)[1])


def problems(plane: ControlPlane) -> Problems:
    return by_cluster(all_problems(plane), NAMESPACE)


def heal(plane: ControlPlane) -> None:
    """Do what every problem asks for: its change, and by hand what has none."""
    kubectl = str(build.binary("kubectl"))
    for command in {_remedy_of(each) for each in all_problems(plane)} - {""}:
        words = command.replace("kubectl ", f"{kubectl} ")
        words += " --wait=false" if "delete" in command else ""
        done = subprocess.run(  # noqa: S602 - it is what a person would paste
            words,
            shell=True,
            env=plane.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        # KubeRay was faster
        overtaken = "NotFound" in done.stderr or "already exists" in done.stderr
        assert done.returncode == 0 or overtaken, done.stderr


def let_run(api: Api) -> None:
    """Play scheduler, kubelet and node pools: pods end or run on a node of one pool."""
    for pod in api.list(PODS, NAMESPACE):
        with suppress(ApiError):  # KubeRay has deleted it by now
            _let_run(api, pod)


def _let_run(api: Api, pod: Json) -> None:
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        api.delete(PODS, meta["name"], NAMESPACE, grace=0)
        return
    if not pod["spec"].get("nodeName"):
        bind(api, meta["name"], NAMESPACE, POOLS[0])
    scheduled = {"type": "PodScheduled", "status": "True"}
    status = status_of("Running", scheduled, READY, containerStatuses=[], initContainerStatuses=[])
    report(api, meta["name"], status)


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
    report(api, name, status_of("Running", READY))


def delete_pods(api: Api, cluster: str, node_type: str) -> None:
    selector = f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_NODE_TYPE}={node_type}"
    api.delete_all(PODS, NAMESPACE, selector)


def change(api: Api, cluster: str, **metadata: Json) -> None:
    api.patch(PODS, name_of(api, cluster), {"metadata": metadata}, NAMESPACE)


def change_group(api: Api, cluster: str, **fields: object) -> None:
    (group,) = api.get(RAY_CLUSTERS, cluster, NAMESPACE)["spec"]["workerGroupSpecs"]
    api.patch(RAY_CLUSTERS, cluster, {"spec": {"workerGroupSpecs": [group | fields]}}, NAMESPACE)


def status_of(phase: str, *conditions: Json, **fields: object) -> Json:
    return {"phase": phase, "conditions": [*conditions], **fields}


def container(name: str = "ray-worker", restarts: int = 0, **fields: object) -> Json:
    status = {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": restarts}
    return status | fields


def split(api: Api) -> None:
    """A host runs in another node pool than the rest: its Node was moved there."""
    pod = remove(api, "split")
    again = {key: pod["metadata"][key] for key in ("generateName", "labels", "ownerReferences")}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    start(api, {"metadata": again, "spec": spec}, POOLS[1])


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
    report(api, made["metadata"]["name"], status_of("Pending", condition))


def gate(api: Api) -> None:
    """Kueue does not choose the node of a pod."""
    pod = replacement(api, "gated")
    pod["spec"]["schedulingGates"] = [{"name": names.KUEUE_GATE_TOPOLOGY}]
    api.create(PODS, pod, NAMESPACE)


def fail_resize(api: Api) -> None:
    status = json.dumps({"last-failed-at": int(time.time()), "last-failed-reason": "timed out"})
    change(api, "unresized", annotations={"ray.io/ippr-status": status})


def restart_host(api: Api) -> None:
    """Ray's container of one host ended, and kubelet started it again."""
    pod, at = of(api, "restarted"), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": at, "finishedAt": at}
    states = {"state": {"running": {"startedAt": at}}, "lastState": {"terminated": ended}}
    ray = container(pod["spec"]["containers"][0]["name"], 1, ready=True, **states)
    report(api, pod["metadata"]["name"], {"containerStatuses": [ray]})


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


PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
LONG_UNREADY = UNREADY | {"lastTransitionTime": "2026-01-01T00:00:00Z"}
STATUSES: dict[str, tuple[Json, str]] = {
    "imageless": (
        status_of("Pending", UNREADY, containerStatuses=[container(state=PULL)]),
        "container-not-running",
    ),
    "evicted": (status_of("Failed", UNREADY, reason="Evicted"), "pod-ended"),
    "unready": (status_of("Running", LONG_UNREADY), "pod-not-ready"),
    "deferred": (status_of("Running", READY, DEFERRED), "resize-stuck"),
}
"""By RayCluster, the status of a pod, and its problem."""

PROVOKED: tuple[tuple[Callable[[Api], object], str, str], ...] = (
    *(
        (lambda api, name=name, status=status: report(api, name_of(api, name), status), name, id_)
        for name, (status, id_) in STATUSES.items()
    ),
    (lambda api: remove(api, "lacking"), "lacking", "host-missing"),
    (lambda api: change(api, "unidentified", labels=dict.fromkeys(IDENTITY)), "unidentified",
     "pod-without-identity"),
    (lambda api: change(api, "double", labels={names.LABEL_HOST_INDEX: "2"}), "double",
     "identity-duplicate"),
    (lambda api: change(api, "ungrouped", labels={names.LABEL_GROUP: "former"}), "ungrouped",
     "pod-without-group"),
    (lambda api: change_group(api, "surplus", replicas=1), "surplus", "replica-beyond-desired"),
    (lambda api: change_group(api, "resized", numOfHosts=2), "resized", "hosts-changed"),
    (lambda api: api.delete(SERVICES, "nameless-headless", NAMESPACE), "nameless",
     "headless-service-missing"),
    (lambda api: delete_pods(api, "headless", "head"), "headless", "head-missing"),
    (lambda api: delete_pods(api, "gone", "worker"), "gone", "replica-missing"),
    (split, "split", "replica-split"), (renumber, "renumbered", "slice-left-out"),
    (misplace, "misplaced", "worker-id-differs"), (crowd_out, "crowded", "pod-pending"),
    (gate, "gated", "pod-gated"), (fail_resize, "unresized", "resize-failed"),
    (restart_host, "restarted", "host-restarted"), (add_webhook, "", "second-webhook"),
)  # fmt: skip
"""What happens to a RayCluster, and its only problem afterwards."""


@pytest.mark.usefixtures("later")
def test_what_is_wrong_is_seen_and_gone_after_its_remedy(
    refused: Json, webhook: Webhook, control_plane: ControlPlane
) -> None:
    needs.HEADLESS_SERVICE.ask()
    plane, controller = control_plane, webhook.controller
    api, replicas = plane.api, {"surplus": 2, "renumbered": 3}
    others = {"resized": grouped("resized", {"cpu": (1, HOSTS)}, {}), "renumbered": multi_slice(3)}
    clusters = [name for _, name, _ in PROVOKED if name]
    with (
        Operator(plane, multi_host_indexing=False) as operator,
        Dashboard(plane) as dashboard,
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
            lambda: "pod-refused" in problems(plane).get("refused", ()),
            "KubeRay tells of a refusal",
        )
        let_run(api)
        wanted = {"refused": {"pod-refused"}, "ignored": {"ignored"}}
        until_equal(partial(problems, plane), wanted, "the terminal says so")
        until_equal(lambda: page.problems(NAMESPACE), wanted, "the page says so")

        operator.stop()
        for provoke, _, _ in PROVOKED:
            provoke(api)
        wanted |= {name: {id_} for _, name, id_ in PROVOKED}
        until_equal(partial(problems, plane), wanted, "the terminal says all of it")
        assert [problems(plane) for _ in range(TIMES)] == [wanted] * TIMES
        assert plane.read_status(NAMESPACE)[0] == 1
        code, text = plane.run_command("check", "-n", NAMESPACE)
        assert code == 1
        assert "kuberay-tpu-webhook.ray-system.svc (of " in text

        until(lambda: not _missing_events(api), "each RayCluster gets its events")
        until_equal(lambda: page.problems(NAMESPACE), wanted, "the page says all of it")
        until_equal(partial(dashboard.problems, NAMESPACE), wanted, "JSON says all of it")
        named = {name for name, _ in EVENTS[:-1]}
        until(lambda: controller.problems(NAMESPACE).keys() > named, "the metrics count them")

        template = refused["spec"]["workerGroupSpecs"][0]["template"]
        template["spec"]["nodeSelector"][names.NODE_TPU_TOPOLOGY] = "2x2x4"
        change_group(api, "refused", template=template)
        operator.start()
        nothing: Problems = {}
        until_equal(partial(_after_remedies, plane), nothing, "every remedy is done and has helped")
        until(lambda: events_of(api, NAMESPACE, "ReplicaComplete"), "replicas are complete again")
        until_equal(lambda: page.problems(NAMESPACE), nothing, "nothing is left on the page")
        until_equal(partial(dashboard.problems, NAMESPACE), nothing, "nor is it in JSON")
        until_equal(lambda: controller.problems(NAMESPACE), nothing, "nothing is left to tell")
    assert plane.run_command("check", "-n", NAMESPACE)[0] == 0
    for name in (*clusters, "ignored", "refused"):
        plane.delete_ray_cluster(name, NAMESPACE)


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


def _after_remedies(plane: ControlPlane) -> Problems:
    heal(plane)
    let_run(plane.api)
    return problems(plane)


def test_a_rejection_that_kuberay_repeats_has_one_answer(
    webhook: Webhook, control_plane: ControlPlane
) -> None:
    assert webhook.ready
    plane, api = control_plane, control_plane.api
    plane.namespace(NAMESPACE)
    api.create(POLICIES, full("full"))
    binding = {"policyName": "full", "validationActions": ["Deny"]}
    api.create(POLICY_BINDINGS, {"metadata": {"name": "full"}, "spec": binding})
    host: Json = {"containers": [{"name": "ray-worker", "image": "ray"}]}
    labels = {"ray.io/cluster": "full", names.LABEL_HOST_INDEX: "2"}
    pod = {"metadata": {"generateName": "full-", "labels": labels}, "spec": host}
    until(lambda: QUOTA in api.refusal(PODS, pod, NAMESPACE), "the API server enforces the policy")
    with Operator(plane, multi_host_indexing=True):
        api.create(RAY_CLUSTERS, slices("full", 1), NAMESPACE)
        until(lambda: "pod-refused" in problems(plane).get("full", ()), "the quota is full")
        created: set[str] = set()

        def repetitions() -> int:
            created.update(each["metadata"]["uid"] for each in workers(api, NAMESPACE, "full"))
            return len(created)

        problem = one_answer(plane, "full", "pod-refused", repetitions)
        assert QUOTA in problem["message"]
        assert problem["command"] == f"kubectl describe resourcequota -n {NAMESPACE}"
    api.delete(POLICY_BINDINGS, "full")
    api.delete(POLICIES, "full")
    plane.delete_ray_cluster("full", NAMESPACE)


def one_answer(
    plane: ControlPlane, cluster: str, wanted: str, repetitions: Callable[[], int]
) -> Json:
    """Ask for the problems until what repeats has done so; return the only one of all answers but
    for pods that nothing schedules.
    """
    asked, before = 0, repetitions()
    problems: Objects = []

    def is_over() -> bool:
        nonlocal asked, problems
        code, found = plane.read_status(NAMESPACE)
        ours = [each for each in every_problem(found) if each.get("cluster") == cluster]
        problems = [each for each in ours if each["id"] != "pod-pending"]
        assert (code, [each["id"] for each in problems]) == (1, [wanted]), asked
        asked += 1
        return repetitions() >= before + REPETITIONS and asked >= TIMES

    until(is_over, f"{wanted} is asked for while it repeats")
    return problems[0]


def test_a_rayjob_that_fails_has_one_answer_an_event_and_a_metric(
    webhook: Webhook, control_plane: ControlPlane
) -> None:
    controller = webhook.controller
    plane, api = control_plane, control_plane.api
    plane.namespace(NAMESPACE)
    job = a_job().spec(activeDeadlineSeconds=5, shutdownAfterJobFinishes=False).build()
    name = job["metadata"]["name"]
    with Operator(plane):
        api.create(RAY_JOBS, job, NAMESPACE)
        cluster = until(lambda: _cluster_of(api, name), "KubeRay creates the RayCluster")
        until(lambda: "job-failed" in problems(plane).get(cluster, ()), "its deadline is over")
        numbers = count()

        def repetitions() -> int:
            """Change the RayJob, so that KubeRay reconciles it."""
            number = next(numbers)
            api.patch(RAY_JOBS, name, {"metadata": {"labels": {"n": str(number)}}}, NAMESPACE)
            return number

        problem = one_answer(plane, cluster, "job-failed", repetitions)
        assert f"RayJob {name} has failed: DeadlineExceeded" in problem["message"]
        until(lambda: events_of(api, NAMESPACE, "RayJobFailed"), "the RayCluster is told")
        until(
            lambda: "job-failed" in controller.problems(NAMESPACE).get(cluster, ()), "it is counted"
        )
        api.delete(RAY_JOBS, name, NAMESPACE)
    plane.delete_ray_cluster(cluster, NAMESPACE)


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
    webhook: Webhook, control_plane: ControlPlane, tmp_path: Path
) -> None:
    assert webhook.ready
    plane, api = control_plane, control_plane.api
    plane.namespace(NAMESPACE)
    with Operator(plane):  # which gives identities itself
        api.create(RAY_CLUSTERS, slices("changed", 1), NAMESPACE)
        wait_for_workers(api, NAMESPACE, HOSTS, "changed")

        code, text = plane.run_command("explain", "pod", name_of(api, "changed"), "-n", NAMESPACE)
        assert code == 0
        assert "host 3 of replica 0" in text
        assert "✓ TPU_WORKER_ID=3 in ray-worker" in text
        assert "✗ TPU" not in text

        file = tmp_path / "changed.json"
        file.write_text(json.dumps(slices("changed", 1)))
        assert plane.run_command("diff", "-f", str(file), "-n", NAMESPACE)[0] == 0
        file.write_text(json.dumps(slices("changed", 2)))
        code, text = plane.run_command("diff", "-f", str(file), "-n", NAMESPACE)
        assert code == 1
        assert "tpu-group: created hosts, 4 hosts" in text
