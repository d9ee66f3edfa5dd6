"""The lifecycle of a RayCluster's Workload and PodGroups: from what should exist and what does, the
next actions.

An object that this RayCluster does not control is never touched. What cannot be changed is left
until no pod depends on it, then deleted, and created again when it is gone. Pods keep a PodGroup
that is being deleted, and those that come after them name the next one by the same name: so that it
can come, the protection is taken off the one that goes.
"""

from msgspec import Struct

from webhook.groups.pod_groups import (
    BASIC,
    Desired,
    PodGroup,
    Template,
    Workload,
)


class Identity(Struct, frozen=True, gc=False):
    """An object as the API server has it. `controller` is the uid of the RayCluster that controls
    it, if one does.
    """

    name: str
    uid: str
    version: str
    controller: str
    deleting: bool = False
    labelled: bool = True
    """It bears the labels by which we find it again."""
    labels: dict[str, str] = {}

    @property
    def goes(self) -> bool:
        """Return whether it was made here, for this or a former RayCluster of the name, and is
        being deleted.
        """
        return self.deleting and self.labelled and bool(self.controller)


class SeenPodGroup(Struct, frozen=True, gc=False):
    """A PodGroup that exists; `workload` and `template` are empty when it stands alone."""

    identity: Identity
    min_count: int
    priority_class: str
    workload: str = ""
    template: str = ""
    protection: int | None = None
    """The place of the finalizer by which pods keep it, among its finalizers."""

    @property
    def lingers(self) -> bool:
        """Return whether pods keep it from going, those of today or those that name it by the name
        of the next one.
        """
        return self.identity.goes and self.protection is not None


class SeenWorkload(Struct, frozen=True, gc=False):
    """A Workload that exists."""

    identity: Identity
    templates: tuple[Template, ...]
    priority_class: str


Seen = SeenPodGroup | SeenWorkload


class Actual(Struct, frozen=True, gc=False):
    """What exists, of the names that are desired and of those that we made."""

    pod_groups: tuple[SeenPodGroup, ...] = ()
    workloads: tuple[SeenWorkload, ...] = ()

    @property
    def all(self) -> tuple[Seen, ...]:
        """Everything."""
        return self.workloads + self.pod_groups


class Create(Struct, frozen=True, gc=False):
    """Make a Workload, or a PodGroup from a template of the workload that it names, or alone."""

    wanted: Workload | PodGroup
    workload: str = ""


class Resize(Struct, frozen=True, gc=False):
    """Change minimal counts: of a PodGroup its own, of a Workload those of its templates in their
    order.
    """

    seen: Seen
    min_counts: tuple[int, ...]


class Label(Struct, frozen=True, gc=False):
    """Put our labels back."""

    seen: Seen


class Release(Struct, frozen=True, gc=False):
    """Take the protection off a PodGroup that is being deleted."""

    seen: SeenPodGroup


class Delete(Struct, frozen=True, gc=False):
    """Delete an object."""

    seen: Seen


Action = Create | Resize | Label | Release | Delete


def decide(
    desired: Desired, actual: Actual, *, resizable: bool, live: frozenset[str]
) -> list[Action]:
    """Return what to do next, in order; nothing when only time can help, or nothing is left to do.

    `resizable`: whether minimal counts can be changed; `live` names PodGroups that must not be
    deleted for a difference.
    """
    wanted = {group.name: group for group in desired.pod_groups}
    groups = [
        _fate(group, wanted.get(group.identity.name), desired, live, resizable=resizable)
        for group in actual.pod_groups
    ]
    done = [action for action in groups if action is not None]
    for_workloads = [
        _fate_of_workload(seen, desired, actual, resizable=resizable) for seen in actual.workloads
    ]
    before = [action for action in for_workloads if action is not None]
    if desired.workload and any(
        isinstance(action, Delete) and action.seen.identity.name == desired.workload.name
        for action in before
    ):
        return [*done, *before]  # PodGroups are made once the new Workload exists
    missing = desired.workload is not None and desired.workload.name not in {
        seen.identity.name for seen in actual.workloads
    }
    there = {group.identity.name for group in actual.pod_groups}
    templates = _templates(desired, actual)
    creations = [
        Create(
            group, desired.workload.name if desired.workload and group.template in templates else ""
        )
        for group in desired.pod_groups
        if group.name not in there
    ]
    first = [Create(desired.workload)] if missing and desired.workload else []
    return [*done, *before, *first, *creations]


def waits(desired: Desired, actual: Actual) -> bool:
    """Return whether something that is desired is not there yet as it should be, so that another
    look is due.
    """
    seen = {
        group.identity.name: group for group in actual.pod_groups if _ours(group.identity, desired)
    }
    fine = all(
        group.name in seen and _equal(seen[group.name], group) for group in desired.pod_groups
    )
    workloads = {
        workload.identity.name for workload in actual.workloads if _ours(workload.identity, desired)
    }
    return not fine or (desired.workload is not None and desired.workload.name not in workloads)


def foreign(desired: Desired, actual: Actual) -> list[str]:
    """Return the names that are desired, but that objects have which are not this RayCluster's,
    and do not go by themselves.
    """
    wanted = {group.name for group in desired.pod_groups} | (
        {desired.workload.name} if desired.workload else set()
    )
    others = [seen.identity for seen in actual.all if seen.identity.controller != desired.uid]
    return sorted({other.name for other in others if other.name in wanted and not other.goes})


def _fate(
    seen: SeenPodGroup,
    want: PodGroup | None,
    desired: Desired,
    live: frozenset[str],
    *,
    resizable: bool,
) -> Action | None:
    """Return what becomes of a PodGroup."""
    if want is not None and seen.lingers:
        return Release(seen)
    if not _ours(seen.identity, desired):
        return None
    if want is None:
        return Delete(seen)
    if _fixed(seen, resizable=resizable) != _fixed(want, resizable=resizable):
        return None if want.name in live else Delete(seen)
    if seen.min_count != want.min_count:
        return Resize(seen, (want.min_count,))
    return None if seen.identity.labelled else Label(seen)


def _fate_of_workload(
    seen: SeenWorkload, desired: Desired, actual: Actual, *, resizable: bool
) -> Action | None:
    """Return what becomes of a Workload. One that should be another is kept while any PodGroup
    refers to it.
    """
    if not _ours(seen.identity, desired):
        return None
    name, want = seen.identity.name, desired.workload
    if want is None or want.name != name:
        staying = {group.name for group in desired.pod_groups}
        referring = any(
            group.workload == name and group.identity.name in staying for group in actual.pod_groups
        )
        return None if referring else Delete(seen)
    counts = {template.name: template.min_count for template in want.templates}
    same = (
        _shape(seen.templates) == _shape(want.templates)
        and seen.priority_class == want.priority_class
    )
    resized = tuple([counts.get(template.name, BASIC) for template in seen.templates])
    if same and resized == tuple([template.min_count for template in seen.templates]):
        return None if seen.identity.labelled else Label(seen)
    if same and resizable:
        return Resize(seen, resized)
    return None if any(group.workload == name for group in actual.pod_groups) else Delete(seen)


def _templates(desired: Desired, actual: Actual) -> set[str]:
    """Return the templates that new PodGroups can refer to: of the Workload that is to be made,
    else of the one there is.
    """
    want = desired.workload
    if want is None:
        return set()
    wanted = _shape(want.templates)
    for seen in actual.workloads:
        if seen.identity.name == want.name:
            usable = _ours(seen.identity, desired) and seen.priority_class == want.priority_class
            return {name for name, _ in wanted & _shape(seen.templates)} if usable else set()
    return {name for name, _ in wanted}


def _ours(identity: Identity, desired: Desired) -> bool:
    """Return whether an object is this RayCluster's, and not on its way out."""
    return identity.controller == desired.uid and not identity.deleting


def _equal(seen: SeenPodGroup, want: PodGroup) -> bool:
    return (seen.min_count, seen.priority_class) == (want.min_count, want.priority_class)


def _fixed(group: SeenPodGroup | PodGroup, *, resizable: bool) -> tuple[str, int]:
    """Return what of a PodGroup can never be changed."""
    return group.priority_class, group.min_count != BASIC if resizable else group.min_count


def _shape(templates: tuple[Template, ...]) -> set[tuple[str, bool]]:
    """Return names, and whether each is a gang: what can never be changed."""
    return {(template.name, template.min_count != BASIC) for template in templates}
