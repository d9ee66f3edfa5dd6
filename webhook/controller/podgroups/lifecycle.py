"""The lifecycle of a RayCluster's Workload and PodGroups: the next actions, from the desired and
the actual objects.

Objects that the RayCluster does not control are never changed. An object with an immutable
difference is kept until no pod depends on it, then deleted and recreated. Pods protect a PodGroup
that is being deleted by a finalizer, and later pods refer to its successor of the same name: the
finalizer is removed, so that the successor can be created.
"""

from msgspec import Struct

from webhook.groups.pod_groups import BASIC, Desired, PodGroup, Workload, WorkloadTemplate


class Identity(Struct, frozen=True, gc=False):
    """An object in the API server. `controller` is the uid of the controlling RayCluster."""

    name: str
    uid: str
    version: str
    controller: str
    deleting: bool = False
    labelled: bool = True
    """Whether the object has the labels of managed objects."""
    labels: dict[str, str] = {}
    """All labels of an object that lacks these."""

    @property
    def terminating(self) -> bool:
        """Return whether it belongs to a RayCluster of this name and is being deleted."""
        return self.deleting and self.labelled and bool(self.controller)


class SeenPodGroup(Struct, frozen=True, gc=False):
    """An existing PodGroup; `workload` and `template` are empty for one without a Workload."""

    identity: Identity
    min_count: int
    priority_class: str
    workload: str = ""
    template: str = ""
    protection: int | None = None
    """The index of the finalizer that protects the PodGroup while pods use it."""

    @property
    def kept_by_finalizer(self) -> bool:
        """Return whether the finalizer keeps a deleted PodGroup, for its own pods or for pods that
        refer to the successor of the same name.
        """
        return self.identity.terminating and self.protection is not None


class SeenWorkload(Struct, frozen=True, gc=False):
    """An existing Workload."""

    identity: Identity
    templates: tuple[WorkloadTemplate, ...]
    priority_class: str


Seen = SeenPodGroup | SeenWorkload


class Actual(Struct, frozen=True, gc=False):
    """The existing objects: those with desired names, and the managed ones."""

    pod_groups: tuple[SeenPodGroup, ...] = ()
    workloads: tuple[SeenWorkload, ...] = ()

    @property
    def all(self) -> tuple[Seen, ...]:
        return self.workloads + self.pod_groups


class Create(Struct, frozen=True, gc=False):
    """Create a Workload, or a PodGroup: from a template of a Workload, or without one."""

    desired: Workload | PodGroup
    workload: str = ""


class Resize(Struct, frozen=True, gc=False):
    """Change minimal counts: of a PodGroup, or of the templates of a Workload in their order."""

    seen: Seen
    min_counts: tuple[int, ...]


class Label(Struct, frozen=True, gc=False):
    """Restore the labels of managed objects."""

    seen: Seen


class Release(Struct, frozen=True, gc=False):
    """Remove the finalizer from a PodGroup that is being deleted."""

    seen: SeenPodGroup


class Delete(Struct, frozen=True, gc=False):
    """Delete an object."""

    seen: Seen


Action = Create | Resize | Label | Release | Delete


def decide(
    desired: Desired, actual: Actual, *, resizable: bool, live: frozenset[str]
) -> list[Action]:
    """Return the next actions in order; none if nothing is left to do or an event must happen
    first.

    `resizable`: whether minimal counts are mutable; `live`: PodGroups that must not be deleted for
    a difference.
    """
    desired_groups = {group.name: group for group in desired.pod_groups}
    groups = {
        group.identity.name: _fate(
            group, desired_groups.get(group.identity.name), desired, live, resizable=resizable
        )
        for group in actual.pod_groups
    }
    workloads = {
        seen_workload.identity.name: _fate_of_workload(
            seen_workload, desired, actual, resizable=resizable
        )
        for seen_workload in actual.workloads
    }
    workload = desired.workload
    changes = [change for change in (*groups.values(), *workloads.values()) if change is not None]
    if workload and isinstance(workloads.get(workload.name), Delete):
        return changes  # PodGroups are created after the new Workload
    if workload and workload.name not in workloads:
        changes.append(Create(workload))
    templates = _templates(desired, actual)
    return changes + [
        Create(group, workload.name if workload and group.template in templates else "")
        for group in desired.pod_groups
        if group.name not in groups
    ]


def needs_retry(desired: Desired, actual: Actual) -> bool:
    """Return whether a desired object is missing or differs, so that a retry is due."""
    actual_groups = {
        group.identity.name: group for group in actual.pod_groups if _ours(group.identity, desired)
    }
    fine = all(
        group.name in actual_groups and _equal(actual_groups[group.name], group)
        for group in desired.pod_groups
    )
    workloads = {
        workload.identity.name for workload in actual.workloads if _ours(workload.identity, desired)
    }
    return not fine or (desired.workload is not None and desired.workload.name not in workloads)


def foreign(desired: Desired, actual: Actual) -> list[str]:
    """Return the desired names that are in use by objects that this RayCluster does not control and
    that are not about to be deleted.
    """
    desired_names = {group.name for group in desired.pod_groups} | (
        {desired.workload.name} if desired.workload else set()
    )
    foreign_identities = [
        seen_object.identity
        for seen_object in actual.all
        if seen_object.identity.controller != desired.uid
    ]
    return sorted(
        {
            other.name
            for other in foreign_identities
            if other.name in desired_names and not other.terminating
        }
    )


def _fate(
    seen: SeenPodGroup,
    want: PodGroup | None,
    desired: Desired,
    live: frozenset[str],
    *,
    resizable: bool,
) -> Action | None:
    # Only if the name is needed again: otherwise the PodGroup ends with its last pod.
    if want is not None and seen.kept_by_finalizer:
        return Release(seen)
    if not _ours(seen.identity, desired):
        return None
    if want is None:
        return Delete(seen)
    if _read_immutable_fields(seen, resizable=resizable) != _read_immutable_fields(
        want, resizable=resizable
    ):
        return None if want.name in live else Delete(seen)
    if seen.min_count != want.min_count:
        return Resize(seen, (want.min_count,))
    return None if seen.identity.labelled else Label(seen)


def _fate_of_workload(
    seen: SeenWorkload, desired: Desired, actual: Actual, *, resizable: bool
) -> Action | None:
    """Return the action for a Workload, which is kept while a PodGroup refers to it."""
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
    """Return the templates for new PodGroups: of the new Workload, else of the existing one."""
    want = desired.workload
    if want is None:
        return set()
    desired_shape = _shape(want.templates)
    for workload in actual.workloads:
        if workload.identity.name == want.name:
            usable = (
                _ours(workload.identity, desired) and workload.priority_class == want.priority_class
            )
            return (
                {name for name, _ in desired_shape & _shape(workload.templates)}
                if usable
                else set()
            )
    return {name for name, _ in desired_shape}


def _ours(identity: Identity, desired: Desired) -> bool:
    """Return whether this RayCluster controls the object, and the object is not being deleted."""
    return identity.controller == desired.uid and not identity.deleting


def _equal(seen: SeenPodGroup, want: PodGroup) -> bool:
    return (seen.min_count, seen.priority_class) == (want.min_count, want.priority_class)


def _read_immutable_fields(group: SeenPodGroup | PodGroup, *, resizable: bool) -> tuple[str, int]:
    return group.priority_class, group.min_count != BASIC if resizable else group.min_count


def _shape(templates: tuple[WorkloadTemplate, ...]) -> set[tuple[str, bool]]:
    """Return the immutable fields of templates: the name, and whether the template is a gang."""
    return {(template.name, template.min_count != BASIC) for template in templates}
