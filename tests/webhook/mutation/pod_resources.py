"""What the scheduler and quotas count of a pod, and its QoS class."""

from decimal import Decimal
from typing import Final

from tests.builders import Object
from webhook.api.quantity import parse_quantity

RESOURCES: Final = ("cpu", "memory")


def effective(pod: Object, kind: str, resource: str) -> Decimal:
    """Return the amount that a scheduler and a quota count for a pod.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    spec = pod["spec"]
    running, most = Decimal(), Decimal()
    for container in spec.get("initContainers") or ():
        amount = _amount(container, kind, resource)
        most = max(most, running + amount)
        running += amount if container.get("restartPolicy") == "Always" else 0
    return max(most, running + sum(_amount(each, kind, resource) for each in spec["containers"]))


def is_guaranteed(pod: Object) -> bool:
    """Return whether the QoS class is Guaranteed: limits of CPU and memory equal requests."""
    spec = pod["spec"]
    return all(
        _amount(container, "requests", resource) == _amount(container, "limits", resource) > 0
        for container in (*(spec.get("initContainers") or ()), *spec["containers"])
        for resource in RESOURCES
    )


def _amount(container: Object, kind: str, resource: str) -> Decimal:
    """Return an amount; the API server sets a request that is missing to the limit."""
    resources = container.get("resources") or {}
    amounts, limits = resources.get(kind) or {}, resources.get("limits") or {}
    return parse_quantity(amounts.get(resource, limits.get(resource, 0)))
