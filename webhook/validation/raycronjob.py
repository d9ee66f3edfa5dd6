"""Rules of RayCronJobs: schedule and time zone."""

import re
from collections.abc import Container, Iterator
from typing import Final

from webhook.api.review import REQUIRED
from webhook.validation.finding import Fault
from webhook.validation.ray_object import CronJob
from webhook.validation.schedule import problem_of

_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_ALWAYS: Final = ("UTC", "Local")
_COPIES: Final = ("posix/", "right/")
"""Directories of the time zone database that contain a second copy of all zones."""
_OWN_ZONE: Final = re.compile(r"(?:CRON_)?TZ=([^ ]*) +")
"""A time zone in front of a schedule, in the syntax of KubeRay's parser."""


def cron_schedule_invalid(cron: CronJob) -> Iterator[Fault]:
    """A schedule that cannot be parsed, or that contains its own time zone.

    KubeRay would never start a job. Since KubeRay 1.7 the time zone is a separate field; if the
    release is unknown, a time zone in the schedule is a warning.
    """
    field = cron.field / "schedule"
    if field.given and not isinstance(field.value, str):
        return
    text = field.text
    if "TZ" in text:
        advice = "schedule contains a time zone: move it to the field timeZone"
        yield Fault(field, advice, since=(1, 7))
        own = _OWN_ZONE.match(text)
        if own and own[1] and not _known(own[1], cron.settings.time_zones):
            yield Fault(field, _unknown(own[1]))
        text = _OWN_ZONE.sub("", text)
    if not text:
        yield Fault(field, "schedule is empty: write one such as '0 3 * * *'", REQUIRED)
    elif problem := problem_of(_OWN_ZONE.sub("", text)):
        yield Fault(field, problem)


def cron_time_zone_invalid(cron: CronJob) -> Iterator[Fault]:
    """A time zone that is empty or unknown.

    KubeRay would never start a job. Without the field, KubeRay uses the time zone of the operator.
    """
    field = cron.field / "timeZone"
    if field.value == "":
        yield Fault(field, "timeZone is empty: remove it, or write one such as Europe/Berlin")
    elif field.text and not _known(field.text, cron.settings.time_zones):
        yield Fault(field, _unknown(field.text))


def _unknown(zone: str) -> str:
    return f"{zone[:40]!r} is not a time zone: write one such as Europe/Berlin or UTC"


def _known(zone: str, zones: Container[str]) -> bool:
    for folder in _COPIES:
        zone = zone.removeprefix(folder)
    return zone in _ALWAYS or (zone in zones if zones else _ZONE.fullmatch(zone) is not None)
