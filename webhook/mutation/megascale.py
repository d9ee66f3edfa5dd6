"""Multi-slice variables: which slice of a job this is, and where its coordinator listens."""

from typing import Final

from webhook.accelerators.devices import TPU
from webhook.groups.naming import host_name
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Replica, Slot, Variable, fill, in_multi_slice

PORT: Final = 8081
"""libtpu's own default is 8080, where KubeRay exports metrics."""

_DIGITS: Final = 9
"""Of a number of slices; Python itself reads no number of more than 4,300."""


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the variables of a slice, for each container in which the user set
    MEGASCALE_NUM_SLICES.

    JAX needs all of them where it finds one, so a container without the number of slices gets none.
    """
    if not replica.count(TPU):
        return []
    edits: list[Edit] = []
    for slot in replica.slots:
        if in_multi_slice(slot):
            edits += _beyond(replica, slot)
            edits += fill(slot, _variables(replica, replica.ordinal(slot) or 0))
    return edits


def _variables(replica: Replica, ordinal: int) -> tuple[Variable, ...]:
    coordinator = f"{host_name(replica.group_name, 0, 0)}.{replica.service}"
    if replica.v7x:
        coordinator += f":{PORT}"
    several = replica.group.desired > 1
    return (
        Variable(
            names.MEGASCALE_SLICE_ID,
            str(replica.index),
            "the slice of this replica",
            identity=several,
        ),
        Variable(names.MEGASCALE_COORDINATOR_ADDRESS, coordinator, "host 0 of slice 0 coordinates"),
        Variable(names.MEGASCALE_PORT, str(PORT + ordinal), "8080 is KubeRay's metrics port"),
    )


def _beyond(replica: Replica, slot: Slot) -> list[Warn]:
    """Return a warning when the slice's id is not below the number of slices: indices may have
    holes after a scale-down.
    """
    number = slot.variable(names.MEGASCALE_NUM_SLICES)
    text = (number.value if number is not None else None) or ""
    if len(text) > _DIGITS:
        return [
            Warn(
                f"{names.MEGASCALE_NUM_SLICES} {text[:_DIGITS]}… is not a number of slices: write "
                "how many replicas there are"
            )
        ]
    if not text.isdecimal() or replica.index < int(text):
        return []
    what = (
        f"{names.MEGASCALE_SLICE_ID} {replica.index} is not below {names.MEGASCALE_NUM_SLICES} "
        f"{text}"
    )
    return [Warn(f"{what}: delete this replica once a lower index is free")]
