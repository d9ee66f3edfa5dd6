"""Rules of RayServices: replacement of the old cluster by a new one."""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import list_choices, shorten
from webhook.api.review import FORBIDDEN, NOT_SUPPORTED, REQUIRED
from webhook.validation.change import INCREMENTAL, NEW_CLUSTER, NONE
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Service

_GATE: Final = "RayServiceIncrementalUpgrade"
_PERCENT_MAX: Final = 100


def service_head_service_named(service: Service) -> Iterator[Fault]:
    """A name for the head's service in a RayService.

    Two clusters exist during an upgrade, and both would need the name.
    """
    field = service.cluster.field / "headGroupSpec" / "headService" / "metadata" / "name"
    if field.given and field.value != "":
        problem = "two clusters exist during an upgrade, so their head Services share no name"
        yield Fault(field, f"{problem}: remove it", FORBIDDEN)


def service_upgrade_type_unknown(service: Service) -> Iterator[Fault]:
    """An unknown upgrade strategy of a RayService.

    The CRD accepts any text, and KubeRay then refuses the RayService. The incremental upgrade was
    added in KubeRay 1.5.
    """
    field = _strategy(service) / "type"
    newer = service.cluster.settings.since((1, 5)) is not False
    upgrade_types = (NEW_CLUSTER, INCREMENTAL, NONE) if newer else (NEW_CLUSTER, NONE)
    if field.given and field.text not in upgrade_types:
        choice = list_choices(upgrade_types)
        yield Fault(field, f"{shorten(str(field.value))!r}: write {choice}", NOT_SUPPORTED)


def service_upgrade_type_missing(service: Service) -> Iterator[Fault]:
    """An upgrade strategy without a type.

    KubeRay 1.5 and 1.6 panic if their feature gate RayServiceIncrementalUpgrade is on, and never
    start the RayService. If the release of KubeRay is unknown, this is a warning.

    https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/util.go
    (`IsIncrementalUpgradeEnabled`)
    """
    fixed = service.cluster.settings.since((1, 7))
    strategy, kind = _strategy(service), _strategy(service) / "type"
    if not strategy.given or kind.given or fixed:
        return
    if fixed is None or service.cluster.settings.enabled(_GATE):
        message = f"type is not set, which ends KubeRay before 1.7: write {NEW_CLUSTER} or {NONE}"
        yield Fault(kind, message, REQUIRED, doubtful=fixed is None)


def service_deletion_delay_negative(service: Service) -> Iterator[Fault]:
    """A negative delay before the old cluster is deleted.

    KubeRay refuses the RayService.
    """
    field = service.field / "rayClusterDeletionDelaySeconds"
    if (field.number or 0) < 0:
        yield Fault(field, f"{field.number}: write 0 or more seconds")


def incremental_without_autoscaling(service: Service) -> Iterator[Fault]:
    """An incremental upgrade of a cluster that does not autoscale.

    The new cluster grows while the old one shrinks; both need the autoscaler.
    """
    if _incremental(service) and not service.cluster.autoscaling:
        field = service.cluster.field / "enableInTreeAutoscaling"
        yield Fault(field, f"enableInTreeAutoscaling is not true: {INCREMENTAL} needs it", REQUIRED)


def incremental_options_missing(service: Service) -> Iterator[Fault]:
    """An incremental upgrade without its options.

    KubeRay needs the step size, the interval and the gateway that shifts the traffic.
    """
    if not _incremental(service):
        return
    options, names = _options(service), ("stepSizePercent", "intervalSeconds", "gatewayClassName")
    if not options.given:
        message = f"clusterUpgradeOptions is not set: add {', '.join(names)}"
        yield Fault(options, message, REQUIRED)
        return
    for field in (options / name for name in names):
        if not field.given or field.value == "":
            message = f"{field.token} is not set, which {INCREMENTAL} needs"
            yield Fault(field, message, REQUIRED)


def incremental_option_invalid(service: Service) -> Iterator[Fault]:
    """A percentage or interval of an incremental upgrade that is out of range.

    The traffic would never reach the new cluster, so KubeRay refuses the RayService.
    """
    if not _incremental(service):
        return
    options = _options(service)
    step, surge, interval = (
        options / name for name in ("stepSizePercent", "maxSurgePercent", "intervalSeconds")
    )
    for field in (step, surge):
        if field.number is not None and not 0 <= field.number <= _PERCENT_MAX:
            yield Fault(field, f"{field.number}: write a percentage from 0 to {_PERCENT_MAX}")
    # The CRD's default of maxSurgePercent.
    most = _PERCENT_MAX if surge.number is None else surge.number
    if 0 <= most <= _PERCENT_MAX and most < (step.number or 0) <= _PERCENT_MAX:
        message = f"{step.number}, above maxSurgePercent {most}: lower it, or raise the other"
        yield Fault(step, message)
    if interval.number is not None and interval.number <= 0:
        yield Fault(interval, f"{interval.number}: write 1 or more seconds")


def _strategy(service: Service) -> Field:
    return service.field / "upgradeStrategy"


def _options(service: Service) -> Field:
    return _strategy(service) / "clusterUpgradeOptions"


def _incremental(service: Service) -> bool:
    chosen = (_strategy(service) / "type").text == INCREMENTAL
    return chosen and service.cluster.settings.enabled(_GATE)
