"""The resources of KubeRay's init container that waits for the head.

https://github.com/ray-project/kuberay/issues/5138
"""

from typing import Final

from webhook.api import names
from webhook.api.objects import WAIT_FOR_HEAD_MOST, Resources
from webhook.api.quantity import read_quantity
from webhook.mutation.edit import Edit, SetAmount
from webhook.mutation.ray_pod import Replica

_NONE: Final = Resources()


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the requests and limits of `wait-gcs-ready`: as much as Ray's container requests, up
    to `WAIT_FOR_HEAD_MOST`, and never less than they are.

    It imports Ray, which takes a minute with KubeRay's 200m, and more than its 256Mi with some
    images. Init containers end before Ray's container starts, and a pod requests the maximum of
    both, so that the pod requests no more. A limit above the request is not KubeRay's: such an
    amount stays, and with it the QoS class.
    """
    waits = replica.policy.raise_wait_gcs_ready and replica.slots
    slots = [slot for slot in waits or () if slot.passing and slot.name == names.WAIT_FOR_HEAD]
    if not slots:
        return []
    ray, wait = (slot.container.resources or _NONE for slot in (replica.ray, slots[0]))
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
