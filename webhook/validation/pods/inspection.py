"""Traversal of one pod template: a tree of checks, the facts for them, and the problems found.

See docs/contributing/decisions/0032-pod-templates-without-a-dry-run.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from webhook.api.formats import shorten
from webhook.validation.field import Field
from webhook.validation.finding import Fault

Check = Callable[[Any], str]
"""Function that returns the advice for a value, or an empty string if the value is valid."""

Part = Callable[[Field, "InspectedPod"], Iterable[Fault]]
"""Function that yields the problems of a part of a template."""

PROBLEMS_MAX: Final = 200
"""Maximum problems of one template; it bounds the time that a hostile template can take."""

SHARED_MEMORY: Final = "shared-mem"
SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108 - KubeRay mounts it there


class Node(Struct):
    """A node of the tree of checks: the check of a value or of its parts, and the nodes below."""

    family: str = ""
    check: Check | None = None
    parts: list[tuple[str, Part]] = field(default_factory=list)
    fields: dict[str, "Node"] = field(default_factory=dict)
    entries: "Node | None" = None


class InspectedPod(Struct):
    """One template, as the pod that KubeRay creates from it: the facts that checks need."""

    template: Field
    never: bool = False
    """Whether the pod's restart policy is Never, by the template or by KubeRay."""
    taken: Mapping[str, bool] = field(default_factory=dict)
    """Names of the containers that KubeRay adds, each with whether it always does."""
    added: tuple[str, ...] = ()
    """Volumes that KubeRay adds."""
    shared_memory: bool = False
    """Whether KubeRay adds a volume for shared memory unless Ray's container mounts one."""
    volumes_seen: dict[str, Mapping[str, Any]] | None = None
    problems: dict[str, list[Fault]] = field(default_factory=dict)
    count: int = 0
    spec: Field = Field({})

    def __post_init__(self) -> None:
        self.spec = self.template / "spec"

    @property
    def volumes(self) -> Mapping[str, Mapping[str, Any]]:
        """The volumes that may be mounted, by name; those that KubeRay adds are empty maps."""
        if self.volumes_seen is None:
            volumes_by_name: dict[str, Mapping[str, Any]] = {name: {} for name in self.added}
            volumes_by_name |= {
                (volume / "name").text: volume.map for volume in (self.spec / "volumes").entries()
            }
            first = next((self.spec / "containers").entries(), Field({}))
            mounts = (first / "volumeMounts").entries()
            mounted = any((mount / "mountPath").text == SHARED_MEMORY_PATH for mount in mounts)
            if self.shared_memory and not mounted:
                volumes_by_name.setdefault(SHARED_MEMORY, {})
            self.volumes_seen = volumes_by_name
        return self.volumes_seen

    def report(self, family: str, fault: Fault) -> None:
        """Add a problem to a family. The text begins with the last parts of the field's path."""
        if self.count < PROBLEMS_MAX:
            self.count += 1
            self.problems.setdefault(family, []).append(fault)


def walk(place: Field, node: Node, pod: InspectedPod) -> None:  # noqa: C901 - one hot loop
    """Check a value and all values below it. Null values count as absent."""
    for family, part in node.parts:
        for fault in part(place, pod):
            pod.report(family, fault)
    value = place.value
    if type(value) is dict:
        fields = node.fields
        for key, item in value.items():
            below = fields.get(key)
            if below is None or item is None:
                continue
            if below.check is None:
                walk(Field(item, place, key), below, pod)
            elif advice := below.check(item):
                message = f"{key} is {format_value(item)}: {advice}"
                pod.report(below.family, Fault(Field(item, place, key), message))
    elif type(value) is list and node.entries is not None:
        below = node.entries
        for index, item in enumerate(value):
            if below.check is None and type(item) is dict:
                walk(Field(item, place, index), below, pod)
            elif below.check and item is not None and (advice := below.check(item)):
                message = f"{place.token} has {format_value(item)}: {advice}"
                pod.report(below.family, Fault(Field(item, place, index), message))


def tree(rows: Iterable[tuple[str, str, Check]], parts: Iterable[tuple[str, str, Part]]) -> Node:
    """Return the tree of rows (path, family, check) and parts (path, family, function).

    In a path such as `containers[].ports[]`, brackets stand for the entries of a list, and a name
    such as `containers|initContainers` for each of the two.
    """
    root = Node()
    for path, family, check in rows:
        for node in _nodes(root, path):
            node.family, node.check = family, check
    for path, family, part in parts:
        for node in _nodes(root, path):
            node.parts.append((family, part))
    return root


def _nodes(root: Node, path: str) -> list[Node]:
    nodes = [root]
    for names in path.replace("[]", ".[]").split("."):
        if names == "[]":
            for node in nodes:
                node.entries = node.entries or Node()
            nodes = [node.entries for node in nodes if node.entries]
        else:
            nodes = [
                node.fields.setdefault(name, Node()) for node in nodes for name in names.split("|")
            ]
    return nodes


def format_value(value: object) -> str:
    """Return a value for a message, cut to the maximum length."""
    if type(value) is str:
        return f'"{shorten(value)}"'
    if type(value) is bool:
        return str(value).lower()
    return shorten(str(value)) if type(value) in (int, float) else "given"


def wrong(place: Field, advice: str) -> Fault:
    """Return the fault of a field whose text is not valid."""
    return Fault(place, f"{place.token} is {format_value(place.text)}: {advice}")


def whole(place: Field) -> int | None:
    """Return the value if it is a whole number, else None."""
    if type(place.value) is float and place.value.is_integer():
        return int(place.value)
    return place.number
