"""Rules of RayCronJobs: schedule and time zone."""

import re
from collections.abc import Iterator
from typing import Final

from webhook.api.formats import shorten
from webhook.api.review import REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject
from webhook.validation.schedule import problem_of

_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*+")
_ALWAYS: Final = ("UTC", "Local")
_COPIES: Final = ("posix/", "right/")
"""Directories of the time zone database that contain a second copy of all zones."""
_OWN_ZONE: Final = re.compile(r"(?:CRON_)?TZ=([^ ]*) +")
"""A time zone in front of a schedule, in the syntax of KubeRay's parser."""


def cron_schedule_invalid(cron: RayObject) -> Iterator[Fault]:
    """A schedule that cannot be parsed, or that contains its own time zone.

    KubeRay would never start a job. Since KubeRay 1.7 the time zone is a separate field; if the
    release is unknown, a time zone in the schedule is a warning.
    """
    field = cron.root / "spec" / "schedule"
    if field.given and not isinstance(field.value, str):
        return
    schedule = field.text
    if "TZ" in schedule:
        advice = "schedule contains a time zone: move it to the field timeZone"
        yield Fault(field, advice, since=(1, 7))
        zone_match = _OWN_ZONE.match(schedule)
        if zone_match and zone_match[1]:
            yield from _unknown(field, zone_match[1], cron)
        schedule = _OWN_ZONE.sub("", schedule)
    if not schedule:
        yield Fault(field, "schedule is empty: write one such as '0 3 * * *'", REQUIRED)
    elif problem := problem_of(_OWN_ZONE.sub("", schedule)):
        yield Fault(field, problem)


def cron_time_zone_invalid(cron: RayObject) -> Iterator[Fault]:
    """A time zone that is empty or unknown.

    KubeRay would never start a job. Without the field, KubeRay uses the time zone of the operator.
    """
    field = cron.root / "spec" / "timeZone"
    if field.value == "":
        yield Fault(field, "timeZone is empty: remove it, or write one such as Europe/Berlin")
    elif field.text:
        yield from _unknown(field, field.text, cron)


def _unknown(field: Field, zone: str, cron: RayObject) -> Iterator[Fault]:
    zones, name = cron.settings.time_zones, zone
    for folder in _COPIES:
        name = name.removeprefix(folder)
    is_known = name in zones if zones else _ZONE.fullmatch(name) is not None
    if not is_known and name not in _ALWAYS:
        message = f"{shorten(zone)!r} is not a time zone: write one such as Europe/Berlin or UTC"
        yield Fault(field, message)
