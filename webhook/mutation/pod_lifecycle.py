"""Lifecycle of a pod: the resources of the container that waits for the head, in-place resize, the
drain of a worker, and the nodes that autoscalers leave alone.

Ray 2.57 and later drains on SIGTERM, for a time set by a variable. With earlier versions, a
`preStop` hook requests the same drain: https://github.com/ray-project/ray/pull/64454
See docs/contributing/decisions/0029-one-preemption-drain.md.
"""

from typing import Final

from webhook.api import names
from webhook.api.objects import WAIT_FOR_HEAD_MOST, Resources
from webhook.api.quantity import read_quantity
from webhook.api.release import Release, image_release, parse_release
from webhook.groups.annotations import ALL, DRAIN_SECONDS, HEADS, KEEP_NODES, REPLICAS
from webhook.groups.drain_timeout import DEFAULT_GRACE, MARGIN, own_seconds, read_seconds
from webhook.mutation.edit import (
    AppendResizeRule,
    Edit,
    Note,
    SetAmount,
    SetAnnotation,
    SetField,
    SetPreStop,
    Warn,
)
from webhook.mutation.ray_pod import Replica, Slot, Variable, fill

_NO_RESOURCES: Final = Resources()


def raise_wait_for_head(replica: Replica) -> list[Edit]:
    """Return the requests and limits of `wait-gcs-ready`: as much as Ray's container requests, up
    to `WAIT_FOR_HEAD_MOST`, and never less than they are.

    It imports Ray, which takes a minute with KubeRay's 200m, and more than its 256Mi with some
    images. Init containers end before Ray's container starts, and a pod requests the maximum of
    both, so that the pod requests no more. A limit above the request is not KubeRay's: such an
    amount stays, and with it the QoS class.

    https://github.com/ray-project/kuberay/issues/5138
    """
    if not replica.policy.raise_wait_gcs_ready:
        return []
    slots = [slot for slot in replica.slots if slot.passing and slot.name == names.WAIT_FOR_HEAD]
    if not slots:
        return []
    ray, wait = (slot.container.resources or _NO_RESOURCES for slot in (replica.ray, slots[0]))
    edits: list[Edit] = []
    for resource, most in WAIT_FOR_HEAD_MOST.items():
        amount = _least(ray, resource, most)
        if amount is not None:
            why = f"what Ray's container requests, at most {most}"
            edits += (
                SetAmount(slots[0].path, kind, resource=resource, value=amount, why=why)
                for kind in _kinds_below(wait, resource, amount)
            )
    return edits


def _kinds_below(wait: Resources, resource: str, other: str | float) -> tuple[str, ...]:
    """Return which of `requests` and `limits` have less than another amount: none, or all that have
    the resource.
    """
    amounts = {"requests": wait.requests or {}, "limits": wait.limits or {}}
    present = {
        kind: read_quantity(quantities[resource])
        for kind, quantities in amounts.items()
        if resource in quantities
    }
    request, maximum = present.get("requests"), read_quantity(other)
    same = all(amount == request for amount in present.values())
    below = request is not None and maximum is not None and request < maximum
    return tuple(present) if same and below else ()


def _least(ray: Resources, resource: str, most: str) -> str | int | float | None:
    """Return the lower of what Ray's container requests and `most`; None without a request."""
    # Kubernetes takes a missing request from the limit.
    value = (ray.requests or {}).get(resource, (ray.limits or {}).get(resource))
    amount, maximum = read_quantity(value), read_quantity(most)
    if amount is None or maximum is None:
        return None
    return value if amount < maximum else most


_RESTART: Final = "RestartContainer"


def resize_policy(replica: Replica) -> list[Edit]:
    """Return the missing entries of Ray's container, if `ray.io/ippr` lists its group.

    Entries of the user are kept. Kubernetes rejects a restart policy for a pod with `restartPolicy:
    Never`, and Ray rejects it for any resize.
    """
    if replica.group_name not in replica.cluster.resizable:
        return []
    ray = replica.ray
    rules = {rule.resource_name: rule.restart_policy for rule in ray.container.resize_policy or ()}
    problem = f"Ray resizes nothing with {_RESTART}"
    # The API server refuses such a pod. KubeRay sets Never with `autoscalerOptions.version: v2`.
    if replica.pod.spec.restart_policy == "Never":
        problem = f"{_RESTART} cannot be with restartPolicy Never"
    edits: list[Edit] = []
    for resource in ("cpu", "memory"):
        if resource not in rules:
            edits.append(AppendResizeRule(ray.path, resource, "Ray resizes it in place"))
        elif rules[resource] == _RESTART:
            edits.append(Warn(f"resizePolicy {resource}: {problem}: remove it from the template"))
    return edits


DRAINS_SINCE: Final[Release] = (2, 57)
"""The first Ray release whose `ray start --block` drains its node on SIGTERM."""

HOOK: Final = """\
import glob, os, sys, time
from ray._private import ray_constants
from ray._raylet import GcsClient
end = time.time() + float(sys.argv[1])
if hasattr(ray_constants, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"):
    sys.exit()  # this Ray drains on SIGTERM
def read(path):
    try:
        return open(path, "rb").read().split(b"\\0")
    except OSError:
        return [b""]
me = b"RAY_CLOUD_INSTANCE_ID=" + os.environ["RAY_CLOUD_INSTANCE_ID"].encode()
for path in glob.glob("/proc/[0-9]*"):
    words = read(path + "/cmdline")
    if words[0].endswith(b"/raylet") and me in read(path + "/environ"):
        node = next(w[10:] for w in words if w.startswith((b"--node_id=", b"--node-id=")))
        PREEMPTION = 2  # nothing new comes to the node, and what runs may end
        gcs = GcsClient(address=os.environ["RAY_ADDRESS"])
        gcs.drain_node(node.decode(), PREEMPTION, "the pod is being deleted", int(end * 1000))
        while time.time() < end and read(path + "/cmdline")[0]:
            time.sleep(0.5)
"""
"""The `preStop` command, with the seconds as its argument: request a drain of the raylet in this
container, and wait until it has ended. Tested with Ray 2.40, 2.56 and 2.60 (`make drain`).

An idle node that drains exits by itself. If the hook fails, Kubernetes continues with SIGTERM.
"""


def drain(replica: Replica) -> list[Edit]:
    """Return the drain of a worker: variable, grace period, and the hook for earlier versions of
    Ray.

    A variable set by the user is kept, and determines the grace period; 0 disables the drain. A
    longer grace period is kept, and so are a container's own hooks and stop signal.
    """
    cluster, seconds, ray = replica.cluster, replica.policy.drain_seconds, replica.ray
    if cluster.drain_seconds:
        if problem := DRAIN_SECONDS.problem(cluster.drain_seconds):
            return [Warn(f"no drain: {DRAIN_SECONDS.annotation} is {problem}")]
        seconds = read_seconds(cluster.drain_seconds) or 0
    if not seconds:
        return []
    variable = ray.variable(names.RAY_DRAIN_TIMEOUT)
    timeout = own_seconds((variable and variable.value) or "")
    if timeout == 0:
        return []
    drain_seconds = seconds if timeout is None else timeout
    why = "Ray drains for as long on SIGTERM"
    edits: list[Edit] = [*fill(ray, [Variable(names.RAY_DRAIN_TIMEOUT, str(seconds), why)])]
    grace = replica.pod.spec.termination_grace_period_seconds
    if (DEFAULT_GRACE if grace is None else grace) < drain_seconds + MARGIN:
        why = "the drain fits into it"
        edits.append(SetField("terminationGracePeriodSeconds", drain_seconds + MARGIN, why))
    # The image decides which Ray runs; `rayVersion` is only what the user says about it.
    release = image_release(ray.container.image or "")[0] or parse_release(cluster.ray_version)
    # The hook itself ends at once if Ray drains on SIGTERM, so an unknown version is no risk.
    if release is None or release < DRAINS_SINCE:
        edits.append(_hook(ray, drain_seconds))
    return edits


def _hook(ray: Slot, seconds: int) -> Edit:
    lifecycle = ray.container.lifecycle
    # A container has one preStop hook, and replacing it could end what the user relies on.
    if lifecycle is not None and (lifecycle.pre_stop or lifecycle.post_start):
        return Note("no preStop: the container has a lifecycle of its own")
    command, why = ("python3", "-c", HOOK, str(seconds)), "asks a Ray before 2.57 to drain"
    return SetPreStop(ray.path, command, why, has_lifecycle=lifecycle is not None)


_KEEP_NODE: Final = {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true"}
_AUTOPILOT: Final = frozenset(
    {"autopilot", "autopilot-spot", "Accelerator", "Balanced", "Performance", "Scale-Out"}
)
"""Compute classes whose pods run on GKE Autopilot, which refuses `safe-to-evict: "false"` beside
pod affinity.

https://cloud.google.com/kubernetes-engine/docs/concepts/autopilot-compute-classes
"""


def keep_node(replica: Replica) -> list[Edit]:
    """Return both annotations for a head without fault tolerance of the GCS, or a host of a
    multi-host group, as configured; none if the template has one of them.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
    https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
    """
    scope = replica.cluster.keep_nodes or replica.policy.keep_nodes
    if problem := KEEP_NODES.problem(scope):
        return [Warn(f"{KEEP_NODES.annotation}: {problem}")]
    if scope not in (ALL, HEADS if replica.head else REPLICAS):
        return []
    # With fault tolerance, workers survive the loss of the head.
    if replica.cluster.gcs_fault_tolerant if replica.head else replica.hosts <= 1:
        return []
    if not _KEEP_NODE.keys().isdisjoint(replica.pod.annotations):
        return []
    selector = replica.pod.spec.node_selector or {}
    if selector.get(names.NODE_COMPUTE_CLASS) in _AUTOPILOT:
        return [Note("nodes are not kept: GKE Autopilot refuses the annotation")]
    why = "its Ray cluster ends with it" if replica.head else "its replica ends with it"
    return [SetAnnotation(key, value, why) for key, value in _KEEP_NODE.items()]
