"""Rule of the status of a RayCluster: conditions that contradict each other."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject
from webhook.validation.rule import KUBERAY, deny

_SUSPENDING: Final = "RayClusterSuspending"
_SUSPENDED: Final = "RayClusterSuspended"


def suspend_conditions_conflict(ray_object: RayObject) -> Iterator[Fault]:
    """A RayCluster with the conditions Suspending and Suspended at the same time.

    KubeRay stops reconciling the RayCluster until the status is corrected.

    KubeRay validation.go (`ValidateRayClusterStatus`)
    """
    conditions = ray_object.root / "status" / "conditions"
    true = {
        (entry / "type").text for entry in conditions.items() if (entry / "status").text == "True"
    }
    if ray_object.kind == names.RAYCLUSTER_KIND and {_SUSPENDING, _SUSPENDED} <= true:
        yield Fault(
            conditions,
            f"{_SUSPENDING} and {_SUSPENDED} are both True: set one to False",
        )


STATUS: Final = (deny(suspend_conditions_conflict, by=KUBERAY),)
