"""Rendezvous variables: the address where the hosts of a replica meet, for torchrun, Lightning,
vLLM and NCCL.

RANK, WORLD_SIZE, LOCAL_RANK and CUDA_VISIBLE_DEVICES are never set: they are specific to a process,
and Ray sets them.

Shard variables: the shard group and index of a RayCluster.
"""

from collections.abc import Iterator

from webhook.accelerators import profiles
from webhook.accelerators.profiles import Profile, Setting
from webhook.api import names
from webhook.api.formats import shorten
from webhook.groups.annotations import PROFILES, read_count, read_index
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.ray_pod import Replica, Slot, Variable, Worker, fill


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the common variables of all hosts of a replica, for all containers."""
    if not _meets(replica):
        return []
    problem = profiles.check_names(replica.cluster.profiles, replica.policy.profiles)
    edits: list[Edit] = [Warn(f"{PROFILES.annotation}: {problem}")] if problem else []
    # This form resolves by the search list of the pod, without the domain of the cluster, which is
    # not known here.
    master = f"{replica.first_host}.{replica.service}.{replica.cluster.namespace}.svc"
    settings, _ = _settings(replica.profiles(of_slice=False))
    for slot in replica.slots:
        edits += fill(slot, _variables(settings, replica, slot, master))
    return edits


def host_edits(worker: Worker) -> list[Edit]:
    """Return the rank of a host in its replica, for all containers."""
    replica = worker.replica
    if not _meets(replica):
        return []
    _, settings = _settings(replica.profiles(of_slice=False))
    rank = {profiles.RANK: str(worker.host)}
    variables = [
        Variable(setting.variable, setting.filled(rank) or "", setting.why) for setting in settings
    ]
    return [edit for slot in replica.slots for edit in fill(slot, variables)]


def _meets(replica: Replica) -> bool:
    return (
        replica.hosts > 1
        and profiles.NONE not in replica.cluster.profiles
        and any(
            replica.devices.get(device.name)
            for device in replica.policy.devices
            if device.rendezvous
        )
    )


def _settings(chosen: list[Profile]) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """Return the settings that are the same for all hosts, and those with a rank, of the chosen
    profiles.
    """
    settings = [
        setting for profile in (profiles.RENDEZVOUS, *chosen) for setting in profile.settings
    ]
    alike = tuple(setting for setting in settings if profiles.RANK not in setting.holes)
    return alike, tuple(setting for setting in settings if profiles.RANK in setting.holes)


def _variables(
    settings: tuple[Setting, ...], replica: Replica, slot: Slot, master: str
) -> Iterator[Variable]:
    values = {profiles.HOSTS: str(replica.hosts), profiles.MASTER: master}
    devices = [
        device
        for device in replica.policy.devices
        if device.rendezvous and slot.devices.get(device.name)
    ]
    if devices and all(device.processes for device in devices):
        values[profiles.DEVICES] = str(sum(slot.devices[device.name] for device in devices))
    read: set[str] = set()
    for setting in settings:
        value = setting.filled(values)
        if value is None:
            continue
        name, variable = setting.variable, slot.variable(setting.variable)
        # An address set by the user applies to all variables.
        values[name] = (variable and variable.value) or value
        if variable is not None and (variable.value_from is not None or "$(" in values[name]):
            values[name] = f"$({name})"  # resolved by the kubelet in later entries
            read.add(name)
        yield Variable(
            name,
            value,
            setting.why,
            identity=setting.identity,
            field_path=setting.field_path,
            after=next(iter(setting.holes & read), ""),
        )


def shard_edits(replica: Replica) -> list[Edit]:
    """Return group and index for all containers, if the RayCluster has both, and the count if it is
    set. The index is recorded at creation.
    """
    cluster = replica.cluster
    if not cluster.shard_group:
        return []
    key, index = names.ANNOTATION_SHARD_INDEX, cluster.shard_index
    if not index:
        problem = f"the RayCluster has no {key} yet; any change of it adds one"
        return [Warn(f"no shard variables: {problem}")]
    if read_index(index) is None:
        return [Warn(f"no shard variables: {key} is {shorten(index)!r}: remove it to get one")]
    fields_by_name = {
        names.RAY_SHARD_INDEX: (index, "this RayCluster among those of its shard group"),
        names.RAY_SHARD_GROUP: (cluster.shard_group, "the shard group of the RayCluster"),
    }
    if read_count(cluster.shard_count) is not None:
        fields_by_name[names.RAY_SHARD_COUNT] = (
            cluster.shard_count,
            "how many shards the shard group has",
        )
    variables = [Variable(name, *fields, identity=True) for name, fields in fields_by_name.items()]
    return [edit for slot in replica.slots for edit in fill(slot, variables)]
