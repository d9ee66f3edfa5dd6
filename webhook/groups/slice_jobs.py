"""Multi-slice TPU jobs that span worker groups: the slices of each group, and the coordinator."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import shorten

NUMBER_DIGITS: Final = 9
"""Maximum digits of a number of slices; Python itself parses up to 4,300 digits."""

UNKNOWN_ID: Final = "?"
"""A slice id that a template takes from another source."""


class SliceGroup(Struct, frozen=True, gc=False):
    """A worker group of TPUs by its template: the number of slices, empty if it is not a literal,
    the slice id if it is set, and the desired number of replicas.
    """

    name: str
    number: str
    slice_id: str
    replicas: int


class SliceJob(Struct, frozen=True, gc=False):
    """The part of a worker group in a job that spans several groups.

    `first` is the slice id of its replica 0, and `coordinator` the group that has slice 0.
    `problem` is the reason why the groups cannot be one job: then each group is a job of its own.
    """

    number: str
    first: int
    coordinator: str
    problem: str = ""


def slice_group(
    name: str, variables: Iterable[tuple[str, str]], replicas: int
) -> SliceGroup | None:
    """Return a worker group of TPUs by the number of slices and the slice id of each container,
    which are UNKNOWN_ID if they are not literals; None if no container has a number of slices.
    """
    for number, slice_id in variables:
        if number.isascii() and number.isdecimal() and len(number) <= NUMBER_DIGITS:
            return SliceGroup(name, number, slice_id, replicas)
    return None


def slice_jobs(groups: Sequence[SliceGroup]) -> Mapping[str, SliceJob]:
    """Return the worker groups that share a number of slices which none of them has alone.

    Ids continue from group to group in order. If their templates set the ids, the group with id 0
    has the coordinator.
    """
    jobs_by_group: dict[str, SliceJob] = {}
    jobs: dict[str, list[SliceGroup]] = {}
    for group in groups:
        jobs.setdefault(group.number, []).append(group)
    for number, members in jobs.items():
        # A group that has all slices is a job by itself.
        if len(members) > 1 and int(number) not in [group.replicas for group in members]:
            jobs_by_group |= _job(number, members)
    return jobs_by_group


def _job(number: str, members: list[SliceGroup]) -> dict[str, SliceJob]:
    total = sum([group.replicas for group in members])
    numbered = [group for group in members if group.slice_id]
    # Ids that the user wrote are kept, so only the coordinator is needed.
    if numbered:
        zero = next((group.name for group in numbered if group.slice_id == "0"), "")
        problem = ""
        if len(numbered) < len(members):
            problem = f"set {names.MEGASCALE_SLICE_ID} in all groups of the job, or in none"
        elif not zero and all(group.slice_id != UNKNOWN_ID for group in members):
            problem = f"no group of the job has {names.MEGASCALE_SLICE_ID} 0: number them from 0"
        return {
            member.name: SliceJob(number, 0, zero or member.name, problem) for member in members
        }
    if total != int(number):
        first, last = shorten(members[0].name), shorten(members[-1].name)
        problem = (
            f"{number} slices, but groups {first} to {last} have {total} replicas in all: make "
            "them equal"
        )
        return {member.name: SliceJob(number, 0, member.name, problem) for member in members}
    # A group without replicas has no host that could coordinate.
    coordinator = next((group.name for group in members if group.replicas), members[0].name)
    jobs_by_group, first_id = {}, 0
    for member in members:
        jobs_by_group[member.name] = SliceJob(number, first_id, coordinator)
        first_id += member.replicas
    return jobs_by_group
