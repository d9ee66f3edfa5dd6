"""The variables that the webhook sets, derived by running the mutators on workers of every kind."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct, structs

from webhook.accelerators.profiles import Profiles
from webhook.api import names
from webhook.api.objects import Pod, RayCluster
from webhook.groups.group_config import read_cluster_config
from webhook.groups.identity import HostIdentity
from webhook.mutation.edit import SetEnv
from webhook.mutation.pipeline import edits
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy, read_replica


class GivenVariable(Struct, frozen=True):
    """A variable: its reason, and its value in an example. `given`: the workers that get it."""

    name: str
    why: str
    example: str
    given: str


_HOST: Final = 1
"""The host of the example values."""


def list_variables(profiles: Profiles) -> dict[str, GivenVariable]:
    """Return every variable by name; if several kinds of workers get it, the first kind is used."""
    variables_by_name: dict[str, GivenVariable] = {}
    for kind in _KINDS:
        for edit in _variables(kind, profiles):
            example = f"<{edit.field_path}>" if edit.field_path else str(edit.value)
            variables_by_name.setdefault(
                edit.name, GivenVariable(edit.name, edit.why, example, kind.given)
            )
    return variables_by_name


class _WorkerKind(Struct, frozen=True):
    """A kind of workers: a description, the resource that they request, the annotations of their
    RayCluster, their TPU slice and variables, and whether it chooses all profiles.
    """

    given: str
    resource: str = "cpu"
    annotations: dict[str, str] = {}
    accelerator: str = "tpu-v6e-slice"
    topology: str = "2x4"
    env: tuple[dict[str, str], ...] = ()
    policy: Policy = DEFAULT_POLICY
    with_profiles: bool = False


def _variables(kind: _WorkerKind, profiles: Profiles) -> Iterator[SetEnv]:
    group = {"groupName": "workers", "numOfHosts": 2, "replicas": 2}
    annotations = {**kind.annotations}
    if kind.with_profiles:
        annotations[names.ANNOTATION_PROFILES] = ",".join(profile.name for profile in profiles)
    meta = {"name": "demo", "namespace": "team", "uid": "demo", "annotations": annotations}
    document = {"metadata": meta, "spec": {"workerGroupSpecs": [group]}}
    cluster_config = read_cluster_config(msgspec.convert(document, RayCluster))
    tpu = kind.resource == names.RESOURCE_TPU
    limits = {kind.resource: "4" if tpu else "8"}
    container = {"name": "ray-worker", "env": kind.env, "resources": {"limits": limits}}
    selector = {
        names.NODE_TPU_ACCELERATOR: kind.accelerator,
        names.NODE_TPU_TOPOLOGY: kind.topology,
    }
    spec = {"nodeSelector": selector if tpu else {}, "containers": [container]}
    pod: Pod = msgspec.json.decode(msgspec.json.encode({"spec": spec}), type=Pod)
    replica = read_replica(
        pod,
        HostIdentity(0, 0, "workers-x7k2p"),
        cluster_config,
        cluster_config.groups["workers"],
        policy=structs.replace(kind.policy, profiles=profiles),
    )
    return (edit for edit in edits(replica, _HOST) if type(edit) is SetEnv)


_SHARD: Final = {
    names.ANNOTATION_SHARD_GROUP: "demo",
    names.ANNOTATION_SHARD_INDEX: "3",
    names.ANNOTATION_SHARD_COUNT: "8",
}
_SLICES: Final = {"name": names.MEGASCALE_NUM_SLICES, "value": "2"}
_NODE_LABELS: Final = {names.ANNOTATION_NODE_LABELS: "nvidia.com/gpu.clique=ray.io/gpu-domain"}
_TPU: Final = names.RESOURCE_TPU
_GPU: Final = "nvidia.com/gpu"

_KINDS: Final = (
    _WorkerKind("workers that ask for TPU chips", _TPU),
    _WorkerKind(
        f"workers of a job over several TPU slices, which set {names.MEGASCALE_NUM_SLICES}",
        _TPU,
        env=(_SLICES,),
    ),
    _WorkerKind(
        f"workers that ask for TPU chips, with a profile in {names.ANNOTATION_PROFILES}",
        _TPU,
        with_profiles=True,
    ),
    _WorkerKind("workers on TPU v7x", _TPU, accelerator="tpu7x", topology="2x2x2"),
    _WorkerKind("workers of groups of several hosts that ask for GPUs", _GPU),
    _WorkerKind(
        f"such workers, with a profile in {names.ANNOTATION_PROFILES}", _GPU, with_profiles=True
    ),
    _WorkerKind(
        f"all pods of a RayCluster with {names.ANNOTATION_SHARD_GROUP}", annotations=_SHARD
    ),
    _WorkerKind(
        f"workers of a RayCluster with {names.ANNOTATION_REPLICA_LABEL}",
        annotations={names.ANNOTATION_REPLICA_LABEL: "true"},
    ),
    _WorkerKind(
        f"workers of a RayCluster with {names.ANNOTATION_NODE_LABELS}", annotations=_NODE_LABELS
    ),
    _WorkerKind(
        f"workers of a RayCluster with {names.ANNOTATION_DRAIN_SECONDS}",
        annotations={names.ANNOTATION_DRAIN_SECONDS: "120"},
    ),
    _WorkerKind("all Ray pods, on Kubernetes 1.35 and later", policy=Policy(zones=True)),
)
