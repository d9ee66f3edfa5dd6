"""The variables that the webhook sets, derived by running the mutators on workers of every kind."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from webhook.accelerators import profiles
from webhook.api import names
from webhook.api.objects import Pod, RayCluster
from webhook.groups.group_config import facts_of
from webhook.groups.identity import HostIdentity
from webhook.mutation.edit import SetEnv
from webhook.mutation.pipeline import host_edits, replica_edits
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy, Worker, read_replica

Object = dict[str, Any]


class GivenVariable(Struct, frozen=True):
    """A variable: its reason, and its value in an example. `given`: the workers that get it."""

    name: str
    why: str
    example: str
    given: str


_HOST: Final = 1
"""The host of the example values."""


def given_variables() -> dict[str, GivenVariable]:
    """Return every variable by name; if several kinds of workers get it, the first kind is used."""
    found: dict[str, GivenVariable] = {}
    for kind in _KINDS:
        for edit in _edits(kind):
            example = f"<{edit.field_path}>" if edit.field_path else str(edit.value)
            found.setdefault(edit.name, GivenVariable(edit.name, edit.why, example, kind.given))
    return found


class _Kind(NamedTuple):
    """A kind of workers: a description, the annotations of their RayCluster, and their pod spec."""

    given: str
    annotations: dict[str, str]
    spec: Object
    policy: Policy = DEFAULT_POLICY


def _edits(kind: _Kind) -> Iterator[SetEnv]:
    group = {"groupName": "workers", "numOfHosts": 2, "replicas": 2}
    meta = {"name": "demo", "namespace": "team", "uid": "demo", "annotations": kind.annotations}
    document = {"metadata": meta, "spec": {"workerGroupSpecs": [group]}}
    facts = facts_of(msgspec.convert(document, RayCluster))
    pod: Pod = msgspec.json.decode(msgspec.json.encode({"spec": kind.spec}), type=Pod)
    replica = read_replica(
        pod, HostIdentity(0, 0, "workers-x7k2p"), facts, facts.groups["workers"], policy=kind.policy
    )
    for edit in (*host_edits(Worker(replica, _HOST)), *replica_edits(replica)):
        if type(edit) is SetEnv:
            yield edit


def _worker(
    resource: str, amount: str, selector: dict[str, str], *variables: tuple[str, str]
) -> Object:
    container = {
        "name": "ray-worker",
        "env": [{"name": name, "value": value} for name, value in variables],
        "resources": {"limits": {resource: amount}},
    }
    return {"nodeSelector": selector, "containers": [container]}


def _tpu(accelerator: str, topology: str) -> dict[str, str]:
    return {names.NODE_TPU_ACCELERATOR: accelerator, names.NODE_TPU_TOPOLOGY: topology}


_SHARD: Final = {
    names.ANNOTATION_SHARD_GROUP: "demo",
    names.ANNOTATION_SHARD_INDEX: "3",
    names.ANNOTATION_SHARD_COUNT: "8",
}
_PROFILES: Final = {names.ANNOTATION_PROFILES: ",".join(profiles.BY_NAME)}

_KINDS: Final = (
    _Kind(
        "workers that ask for TPU chips",
        {},
        _worker(names.RESOURCE_TPU, "4", _tpu("tpu-v6e-slice", "2x4")),
    ),
    _Kind(
        f"workers of a job over several TPU slices, which set {names.MEGASCALE_NUM_SLICES}",
        {},
        _worker(
            names.RESOURCE_TPU, "4", _tpu("tpu-v6e-slice", "2x4"), (names.MEGASCALE_NUM_SLICES, "2")
        ),
    ),
    _Kind(
        f"workers that ask for TPU chips, with a profile in {names.ANNOTATION_PROFILES}",
        _PROFILES,
        _worker(names.RESOURCE_TPU, "4", _tpu("tpu-v6e-slice", "2x4")),
    ),
    _Kind("workers on TPU v7x", {}, _worker(names.RESOURCE_TPU, "4", _tpu("tpu7x", "2x2x2"))),
    _Kind(
        "workers of groups of several hosts that ask for GPUs",
        {},
        _worker("nvidia.com/gpu", "8", {}),
    ),
    _Kind(
        f"such workers, with a profile in {names.ANNOTATION_PROFILES}",
        _PROFILES,
        _worker("nvidia.com/gpu", "8", {}),
    ),
    _Kind(
        f"all pods of a RayCluster with {names.ANNOTATION_SHARD_GROUP}",
        _SHARD,
        _worker("cpu", "8", {}),
    ),
    _Kind(
        f"workers of a RayCluster with {names.ANNOTATION_REPLICA_LABEL}",
        {names.ANNOTATION_REPLICA_LABEL: "true"},
        _worker("cpu", "8", {}),
    ),
    _Kind(
        f"workers of a RayCluster with {names.ANNOTATION_NODE_LABELS}",
        {names.ANNOTATION_NODE_LABELS: "nvidia.com/gpu.clique=ray.io/gpu-domain"},
        _worker("cpu", "8", {}),
    ),
    _Kind(
        f"workers of a RayCluster with {names.ANNOTATION_DRAIN_SECONDS}",
        {names.ANNOTATION_DRAIN_SECONDS: "120"},
        _worker("cpu", "8", {}),
    ),
    _Kind(
        "all Ray pods, on Kubernetes 1.35 and later",
        {},
        _worker("cpu", "8", {}),
        Policy(zones=True),
    ),
)
