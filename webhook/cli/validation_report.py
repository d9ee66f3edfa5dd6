"""The report of a `validate` run: text, JSON, GitHub annotations or SARIF."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field, to_builtins

from webhook.api.formats import json_text, one_line
from webhook.cli.kustomize import PatchError
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.finding import DENY, WARN, Level

UNREAD: Final = "unreadable"
"""The rule id of objects that could not be read or checked."""
_COLOURS: Final = {DENY: "\x1b[31m", WARN: "\x1b[33m"}
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"


class FindingLine(Struct, frozen=True):
    """A finding and its line."""

    file: str
    line: int
    level: Level
    rule: str
    path: str
    message: str


class ObjectLocation(NamedTuple):
    """An object and where it is: `RayCluster namespace/name`, with nothing after the slash for a
    generated name.
    """

    name: str
    file: str
    line: int


class Report(Struct):
    """The result of a run. `problems` are errors of objects that could not be read or checked;
    `notes` are problems between objects.
    """

    entries: list[FindingLine] = field(default_factory=list)
    problems: list[ManifestError] = field(default_factory=list)
    notes: list[ManifestError] = field(default_factory=list)
    objects: list[ObjectLocation] = field(default_factory=list)
    """The checked Ray objects."""
    patches: list[PatchError] = field(default_factory=list)
    parts: list[tuple[ObjectLocation, list[FindingLine]]] = field(default_factory=list)
    """The objects without a head, with their findings: patches, or incomplete objects."""
    services: dict[str, ObjectLocation] = field(default_factory=dict)
    """The Services that KubeRay did not create, by `namespace/name`."""
    wanted: list[tuple[ObjectLocation, str, str]] = field(default_factory=list)
    """The RayClusters and RayServices, with the `namespace/name` of a Service that KubeRay writes
    for it, and the consequence for the object or the Service if it is another's.
    """
    skipped: int = 0
    known: int = 0
    """The number of findings in the baseline."""

    def add(self, other: "Report") -> None:
        """Add the results of more documents."""
        self.entries += other.entries
        self.problems += other.problems
        self.notes += other.notes
        self.objects += other.objects
        self.patches += other.patches
        self.parts += other.parts
        self.services |= other.services
        self.wanted += other.wanted
        self.skipped += other.skipped

    def remove_patches(self) -> None:
        """Remove the objects without a head that another file has with one: they are patches."""
        parts = {place for place, _ in self.parts}
        files: dict[tuple[str, str], str] = {}
        for place in self.objects:
            if place not in parts:
                files.setdefault(_without_namespace(place.name), place.file)
        removed: set[int] = set()
        patches: set[ObjectLocation] = set()
        for place, entries in self.parts:
            other = files.get(_without_namespace(place.name), place.file)
            if other != place.file:
                notice = PatchError.of_object(place.file, place.line, place.name, other)
                self.patches.append(notice)
                patches.add(place)
                removed.update(map(id, entries))
        self.objects = [place for place in self.objects if place not in patches]
        self.entries = [entry for entry in self.entries if id(entry) not in removed]

    def note_duplicates(self) -> None:
        """Add a note for each object that is in more than one place."""
        files: dict[str, str] = {}
        for name, file, line in self.objects:
            if name in files:
                other = "this file twice" if files[name] == file else f"{files[name]} as well"
                message = f"{name} is in {other}: the last one applied counts"
                self.notes.append(ManifestError(file, line, message))
            if not name.endswith("/"):
                files.setdefault(name, file)

    def note_services(self) -> None:
        """Add a note for each Service with a name that KubeRay needs."""
        for owner, name, consequence in self.wanted:
            if (service := self.services.get(name)) is not None:
                message = (
                    f"{service.name} has the name that KubeRay needs for {owner.name} in "
                    f"{owner.file}: {consequence}: rename or remove the Service"
                )
                self.notes.append(ManifestError(service.file, service.line, message))


def _without_namespace(name: str) -> tuple[str, str]:
    """Return the kind and the name of an object; a patch often has no namespace."""
    return name.partition(" ")[0], name.rpartition("/")[2]


def text(report: Report, *, colours: bool = False) -> str:
    """Return `file:line: level rule-id path: message`, a line for each finding."""
    bold, plain = (_BOLD, _PLAIN) if colours else ("", "")
    return _lines(
        f"{bold}{one_line(entry.file)}:{entry.line}:{plain} "
        f"{_COLOURS[entry.level] if colours else ''}{entry.level}{plain} {entry.rule} "
        f"{bold}{one_line(entry.path)}{plain}: {one_line(entry.message)}"
        for entry in report.entries
    )


def as_json(report: Report) -> str:
    """Return a JSON list of the findings, and of objects that could not be read or checked."""
    entries = to_builtins([*report.entries, *map(_unread, report.problems)])
    return json_text(entries)


def github(report: Report) -> str:
    """Return workflow commands, which GitHub shows as annotations of the lines.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
    """
    return _lines(
        f"::{'error' if entry.level == DENY else 'warning'} "
        f"file={_property(entry.file)},line={entry.line},"
        f"title={_property(entry.rule)}::{_data(f'{entry.path}: {entry.message}'.lstrip(': '))}"
        for entry in (*report.entries, *map(_unread, report.problems))
    )


def _unread(problem: ManifestError) -> FindingLine:
    """Return a problem as a finding, for formats that contain only findings."""
    return FindingLine(
        problem.file,
        max(problem.line, 1),
        level=DENY,
        rule=UNREAD,
        path="",
        message=problem.problem,
    )


def without_known(
    entries: Iterable[FindingLine], known: Iterable[FindingLine]
) -> list[FindingLine]:
    """Return the findings without those of a baseline.

    Lines and messages may have changed: findings are compared by file, rule and path.
    """
    left = Counter(map(identity, known))

    def new(entry: FindingLine) -> bool:
        left[identity(entry)] -= 1
        return left[identity(entry)] < 0

    return list(filter(new, entries))


def identity(entry: FindingLine) -> tuple[str, str, str]:
    """Return the key by which findings of two runs are compared."""
    return relative(entry.file), entry.rule, entry.path


def relative(file: str) -> str:
    """Return a path relative to the working directory if the file is below it."""
    path = Path(file)
    if not path.is_absolute():
        return path.as_posix()
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _data(value: str) -> str:
    return one_line(value).replace("%", "%25")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
