"""Multi-slice variables: the slice id of a pod, and the address of the job's coordinator."""

from typing import Final

from webhook.accelerators.devices import TPU
from webhook.api import names
from webhook.groups.naming import host_name
from webhook.groups.slice_jobs import NUMBER_DIGITS, SliceJob
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.ray_pod import (
    Replica,
    Variable,
    fill,
    in_multi_slice,
)

PORT: Final = 8081
"""libtpu's default is 8080, the port of KubeRay's metrics."""


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the variables of a slice, for each container in which the user set
    MEGASCALE_NUM_SLICES.

    JAX requires all of them if any is set, so a container without the number of slices gets none.
    """
    if not replica.count(TPU):
        return []
    edits: list[Edit] = []
    for slot in replica.slots:
        if in_multi_slice(slot):
            variable = slot.variable(names.MEGASCALE_NUM_SLICES)
            number = (variable and variable.value) or ""
            job = _job(replica, number)
            edits += _warned(replica, number, job)
            edits += fill(slot, _variables(replica, job, replica.ordinal(slot) or 0))
    return edits


def _job(replica: Replica, number: str) -> SliceJob:
    """Return the part of a group in its job; a group that shares no job has all slices."""
    found = replica.cluster.slices.get(replica.group_name)
    if found is not None and found.number == number:
        return found
    return SliceJob(number, 0, replica.group_name)


def _variables(replica: Replica, job: SliceJob, ordinal: int) -> tuple[Variable, ...]:
    coordinator = f"{host_name(job.coordinator, 0, 0)}.{replica.service}"
    if replica.v7x:
        coordinator += f":{PORT}"
    several = replica.group.desired > 1
    return (
        Variable(
            names.MEGASCALE_SLICE_ID,
            str(job.first + replica.index),
            "the slice of this replica",
            identity=several,
        ),
        Variable(names.MEGASCALE_COORDINATOR_ADDRESS, coordinator, "host 0 of slice 0 coordinates"),
        Variable(names.MEGASCALE_PORT, str(PORT + ordinal), "8080 is KubeRay's metrics port"),
    )


def _warned(replica: Replica, number: str, job: SliceJob) -> list[Warn]:
    """Return a warning for groups that cannot be a job, and for a slice id that is not less than
    the number of slices, or belongs to another group: indices may have gaps after a scale-down.
    """
    if len(number) > NUMBER_DIGITS:
        return [
            Warn(
                f"{names.MEGASCALE_NUM_SLICES} {number[:NUMBER_DIGITS]}… is not a number of "
                "slices: write how many replicas there are"
            )
        ]
    found = [Warn(f"{names.MEGASCALE_NUM_SLICES}: {job.problem}")] if job.problem else []
    spans = replica.group_name in replica.cluster.slices and not job.problem
    if spans and replica.index >= replica.group.desired:
        what = (
            f"replica index {replica.index} is not below {replica.group.desired}, and slice ids "
            "run on in the next group"
        )
    elif number.isdecimal() and replica.index >= int(number):
        what = (
            f"{names.MEGASCALE_SLICE_ID} {replica.index} is not below "
            f"{names.MEGASCALE_NUM_SLICES} {number}"
        )
    else:
        return found
    return [*found, Warn(f"{what}: delete this replica once a lower index is free")]
