"""Traversal of one pod template: a tree of checks, the facts for them, and the problems found.

See docs/contributing/decisions/0032-pod-templates-without-a-dry-run.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from webhook.api.review import DUPLICATE, INVALID
from webhook.validation.field import Field, Key
from webhook.validation.finding import Fault

Way = tuple[str | int, ...]
"""The keys and indices from a template to a field."""

Check = Callable[[Any], str]
"""Function that returns the advice for a value, or an empty string if the value is valid."""

Examine = Callable[[Any, Way, "Pod"], None]
"""Function that reports the problems of a part of a template."""

PROBLEMS_MAX: Final = 200
"""Maximum problems of one template; it bounds the time that a hostile template can take."""

SHARED_MEMORY: Final = "shared-mem"
SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108 - KubeRay mounts it there
OWN_LABELS: Final = frozenset({
    "ray.io/cluster", "ray.io/group", "ray.io/node-type", "ray.io/is-ray-node", "ray.io/identifier",
    "app.kubernetes.io/name", "app.kubernetes.io/created-by",
})  # fmt: skip
"""The labels that KubeRay adds to every pod."""

_SHOWN: Final = 40


class Node(Struct):
    """A node of the tree of checks: the check of a value or of a part, and the nodes below."""

    family: str = ""
    check: Check | None = None
    examine: Examine | None = None
    fields: dict[str, "Node"] = field(default_factory=dict)
    entries: "Node | None" = None


class Pod(Struct):
    """One template, as the pod that KubeRay creates from it: the facts that checks need."""

    place: Field
    """The template."""
    value: Mapping[str, Any]
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

    @property
    def volumes(self) -> Mapping[str, Mapping[str, Any]]:
        """The volumes that may be mounted, by name; those that KubeRay adds are empty maps."""
        if self.volumes_seen is None:
            listed = entries(self.spec.get("volumes"))
            found = dict.fromkeys(self.added, cast("Mapping[str, Any]", {}))
            found |= {text_of(volume, "name"): volume for _, volume in listed}
            if self.shared_memory and not self._mounts(SHARED_MEMORY_PATH):
                found.setdefault(SHARED_MEMORY, {})
            self.volumes_seen = found
        return self.volumes_seen

    @property
    def claims(self) -> frozenset[str]:
        """The names of the pod's claims of devices."""
        return frozenset(
            text_of(each, "name") for _, each in entries(self.spec.get("resourceClaims"))
        )

    @property
    def labels(self) -> frozenset[str]:
        """Keys of the labels that the pod has from its template and from KubeRay."""
        return OWN_LABELS | mapping(self.at(("metadata", "labels"))).keys()

    def _mounts(self, path: str) -> bool:
        first = next((each for _, each in entries(self.spec.get("containers"))), {})
        return any(
            text_of(mount, "mountPath") == path for _, mount in entries(first.get("volumeMounts"))
        )

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the pods, or an empty map if it is not a map."""
        return mapping(self.value.get("spec"))

    def report(
        self, family: str, way: Way, text: str, reason: str = INVALID, *, doubtful: bool = False
    ) -> None:
        """Add a problem to a family. The text begins with the last parts of the field's path."""
        if self.count < PROBLEMS_MAX:
            self.count += 1
            fault = Fault(self._field(way), text, reason, doubtful)
            self.problems.setdefault(family, []).append(fault)

    def once(self, seen: set[Any], item: object, family: str, way: Way, text: str) -> None:
        """Report an item that was seen before, and add it to those that were."""
        if item in seen:
            self.report(family, way, text, DUPLICATE)
        seen.add(item)

    def wrong(self, family: str, way: Way, value: object, advice: str) -> None:
        """Add a problem with the value of a field, the last of a path, and advice."""
        self.report(family, way, f"{way[-1]} is {shown(value)}: {advice}")

    def at(self, way: Way) -> Any:  # noqa: ANN401 - JSON
        """Return the value at a path in the template, or None."""
        return self._field(way).value

    def _field(self, way: Way) -> Field:
        found = self.place
        value: Any = self.value
        for token in way:
            value = value.get(token) if type(value) is dict else _entry(value, token)
            found = Field(value, found, token)
        return found


def walk(value: Any, node: Node, way: Way, pod: Pod) -> None:  # noqa: ANN401, C901 - one hot loop
    """Check a value and all values below it. Null values count as absent."""
    if node.examine is not None:
        node.examine(value, way, pod)
    if type(value) is dict:
        fields = node.fields
        for key, item in value.items():
            below = fields.get(key)
            if below is None or item is None:
                continue
            if below.check is None:
                walk(item, below, (*way, key), pod)
            elif text := below.check(item):
                pod.wrong(below.family, (*way, key), item, text)
    elif type(value) is list and node.entries is not None:
        below = node.entries
        for index, item in enumerate(value):
            if below.check is None:
                walk(item, below, (*way, index), pod)
            elif item is not None and (text := below.check(item)):
                pod.report(below.family, (*way, index), f"{way[-1]} has {shown(item)}: {text}")


def tree(rows: Iterable[tuple[str, str, Check]], parts: Iterable[tuple[str, Examine]]) -> Node:
    """Return the tree of rows (path, family, check) and parts (path, function).

    In a path such as `containers[].ports[]`, brackets stand for the entries of a list.
    """
    root = Node()
    for path, family, check in rows:
        node = _node(root, path)
        node.family, node.check = family, check
    for path, examine in parts:
        _node(root, path).examine = examine
    return root


def _node(root: Node, path: str) -> Node:
    node = root
    for name in path.replace("[]", ".[]").split(".") if path else ():
        if name == "[]":
            node.entries = node.entries or Node()
            node = node.entries
        else:
            node = node.fields.setdefault(name, Node())
    return node


def mapping(value: object) -> Mapping[str, Any]:
    """Return a map, or an empty map for any other value."""
    return value if type(value) is dict else {}


def entries(value: object) -> list[tuple[int, dict[str, Any]]]:
    """Return the entries of a list that are maps, with their indices."""
    if type(value) is not list:
        return []
    return [(index, entry) for index, entry in enumerate(value) if type(entry) is dict]


def text_of(holder: Mapping[str, Any], name: str) -> str:
    """Return a field that is a string, else an empty string."""
    value = holder.get(name)
    return value if type(value) is str else ""


def number_in(holder: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is a whole number, else None."""
    value = holder.get(name)
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def shown(value: object) -> str:
    """Return a value for a message, cut to the maximum length."""
    if type(value) is str:
        return f'"{_cut(value)}"'
    if type(value) is bool:
        return str(value).lower()
    return _cut(str(value)) if type(value) in (int, float) else "given"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _entry(value: object, index: object) -> object:
    fits = type(value) is list and type(index) is int and index < len(value)
    return value[index] if fits else None  # type: ignore[index]


key = Key
"""A user-chosen key of a map, as a path shows it."""
