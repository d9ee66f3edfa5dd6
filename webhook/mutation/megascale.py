"""Multi-slice variables: which slice of a job this is, and where its coordinator listens."""

from typing import Final

from webhook.groups.naming import host_name
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Slot, Variable, Worker, fill, in_multi_slice

PORT: Final = 8081
"""libtpu's own default is 8080, where KubeRay exports metrics."""


def megascale(worker: Worker) -> list[Edit]:
    """Return the variables of a slice, for each container in which the user set MEGASCALE_NUM_SLICES.

    JAX needs all of them where it finds one, so a container without the number of slices gets none.
    """
    if not worker.chips:
        return []
    processes = [slot for slot in worker.slots if slot.chips]
    edits: list[Edit] = []
    for slot in worker.slots:
        if not in_multi_slice(slot):
            continue
        ordinal = processes.index(slot) if worker.v7x and slot.chips else 0
        edits += _beyond(worker, slot)
        edits += fill(slot, _variables(worker, ordinal))
    return edits


def _variables(worker: Worker, ordinal: int) -> tuple[Variable, ...]:
    coordinator = f"{host_name(worker.name, 0, 0)}.{worker.service}"
    if worker.v7x:
        coordinator += f":{PORT}"
    return (
        Variable(
            names.MEGASCALE_SLICE_ID,
            str(worker.seat.replica),
            "the slice of this replica",
            identity=worker.group.desired > 1,
        ),
        Variable(names.MEGASCALE_COORDINATOR_ADDRESS, coordinator, "host 0 of slice 0 coordinates"),
        Variable(names.MEGASCALE_PORT, str(PORT + ordinal), "8080 is KubeRay's metrics port"),
    )


def _beyond(worker: Worker, slot: Slot) -> list[Warn]:
    """Return a warning when the slice's id is not below the number of slices: indices may have holes after a scale-down."""
    number = slot.variable(names.MEGASCALE_NUM_SLICES)
    if number is None or not number.value or not number.value.isdecimal() or worker.seat.replica < int(number.value):
        return []
    return [Warn(f"{names.MEGASCALE_SLICE_ID} {worker.seat.replica} is not below {names.MEGASCALE_NUM_SLICES} {number.value[:9]}")]
