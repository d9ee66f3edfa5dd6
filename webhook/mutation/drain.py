"""Drain: a worker that is being deleted finishes its running tasks before it is killed.

Ray 2.57 and later drains on SIGTERM, for a time set by a variable. With earlier versions, a
`preStop` hook requests the same drain: https://github.com/ray-project/ray/pull/64454
See docs/contributing/decisions/0029-one-preemption-drain.md.
"""

from typing import Final

from webhook.api import names
from webhook.api.release import Release, image_release, parse_release
from webhook.groups.annotations import DRAIN_SECONDS
from webhook.groups.drain_timeout import DEFAULT_GRACE, MARGIN, own_seconds, read_seconds
from webhook.mutation.edit import Edit, Note, SetField, SetPreStop, Warn
from webhook.mutation.ray_pod import Replica, Slot, Variable, fill

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


def replica_edits(replica: Replica) -> list[Edit]:
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
    drain, why = seconds if timeout is None else timeout, "Ray drains for as long on SIGTERM"
    edits: list[Edit] = [*fill(ray, [Variable(names.RAY_DRAIN_TIMEOUT, str(seconds), why)])]
    grace = replica.pod.spec.termination_grace_period_seconds
    if (DEFAULT_GRACE if grace is None else grace) < drain + MARGIN:
        why = "the drain fits into it"
        edits.append(SetField("terminationGracePeriodSeconds", drain + MARGIN, why))
    # The image decides which Ray runs; `rayVersion` is only what the user says about it.
    release = image_release(ray.container.image or "")[0] or parse_release(cluster.ray_version)
    # The hook itself ends at once if Ray drains on SIGTERM, so an unknown version is no risk.
    if release is None or release < DRAINS_SINCE:
        edits.append(_hook(ray, drain))
    return edits


def _hook(ray: Slot, seconds: int) -> Edit:
    lifecycle = ray.container.lifecycle
    # A container has one preStop hook, and replacing it could end what the user relies on.
    if lifecycle is not None and (lifecycle.pre_stop or lifecycle.post_start):
        return Note("no preStop: the container has a lifecycle of its own")
    command, why = ("python3", "-c", HOOK, str(seconds)), "asks a Ray before 2.57 to drain"
    return SetPreStop(ray.path, command, why, has_lifecycle=lifecycle is not None)
