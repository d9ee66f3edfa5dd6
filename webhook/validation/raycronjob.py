"""RayCronJobs: when a RayJob is made."""

import re
from collections.abc import Iterator
from typing import Final

from webhook.kube.review import REQUIRED
from webhook.validation.finding import Fault
from webhook.validation.ray_object import CronJob
from webhook.validation.rule import deny
from webhook.validation.schedule import problem_of

_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_ALWAYS: Final = ("UTC", "Local")


def cron_schedule_invalid(cron: CronJob) -> Iterator[Fault]:
    """A schedule that cannot be read, or that carries its own time zone.

    KubeRay would never start a job. The time zone has a field of its own.

    KubeRay validation.go (`ValidateRayCronJobSpec`)
    """
    field = cron.field / "schedule"
    if field.given and not isinstance(field.value, str):
        return
    if "TZ" in field.text:
        yield Fault(field, "write the time zone to the field timeZone, not into the schedule")
    elif not field.text:
        yield Fault(field, "set a schedule such as '0 3 * * *'", REQUIRED)
    elif problem := problem_of(field.text):
        yield Fault(field, problem)


def cron_time_zone_invalid(cron: CronJob) -> Iterator[Fault]:
    """A time zone that is empty or unknown.

    KubeRay would never start a job. Without the field it takes the operator's own zone.

    KubeRay validation.go (`ValidateRayCronJobSpec`)
    """
    field = cron.field / "timeZone"
    if field.value == "":
        yield Fault(field, "remove it, or name a zone such as Europe/Berlin")
    elif field.text and not _known(field.text, cron.settings.time_zones):
        yield Fault(field, f"{field.text[:40]!r} is no time zone: name one such as Europe/Berlin or UTC")


def _known(zone: str, zones: frozenset[str]) -> bool:
    return zone in _ALWAYS or (zone in zones if zones else _ZONE.fullmatch(zone) is not None)


RAYCRONJOB: Final = (
    deny(cron_schedule_invalid),
    deny(cron_time_zone_invalid),
)
