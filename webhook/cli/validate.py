"""`ray-webhook validate`: check the Ray objects in files by the rules of the webhook."""

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Final, TextIO
from zoneinfo import available_timezones

from msgspec import Struct, field

from webhook.cli.files import read_files
from webhook.cli.report import WRITERS, Entry, coloured
from webhook.kube import names
from webhook.manifest.errors import ManifestError
from webhook.manifest.reader import Manifest
from webhook.validation.finding import DENY, OFF, WARN
from webhook.validation.ruleset import check_file, unknown_names
from webhook.validation.settings import RuleSettings, parse_kuberay

CLEAN: Final = 0
DENIED: Final = 1
UNREADABLE: Final = 2

_ON: Final = ("true", "on", "1", "yes")
_OFF: Final = ("false", "off", "0", "no")


class Result(Struct):
    """What a run has found."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[ManifestError] = field(default_factory=list)
    objects: int = 0
    skipped: int = 0

    def status(self, *, strict: bool) -> int:
        """Return the exit status: 2 when something could not be read, 1 for a denial, or with `strict` for a warning."""
        if self.problems:
            return UNREADABLE
        failing = self.entries if strict else [entry for entry in self.entries if entry.level == DENY]
        return DENIED if failing else CLEAN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `validate` to a parser."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or - for standard input")
    parser.add_argument("-f", "--filename", action="append", default=[], metavar="PATH", help="the same; may be repeated")
    parser.add_argument("-o", "--output", choices=tuple(WRITERS), default="text", help="the format of findings (default: text)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="ID=LEVEL",
        help=f"the level of a rule: {OFF}, {WARN} or {DENY}; may be repeated",
    )
    parser.add_argument(
        "--gate", action="append", default=[], metavar="NAME=BOOL", help="a feature gate of the KubeRay operator; may be repeated"
    )
    parser.add_argument(
        "--kuberay",
        default="",
        metavar="RELEASE",
        help="the release of KubeRay, such as 1.6 (default: the newest that the rules know)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check the files, print the findings, and return the exit status."""
    paths = [*arguments.filename, *arguments.paths]
    settings, problems = _settings(arguments)
    if not paths:
        problems.append("name at least one file, folder, or - for standard input")
    if problems:
        _say(problems)
        return UNREADABLE
    result = collect(read_files(paths), settings)
    writer = coloured if arguments.output == "text" and _colourful(sys.stdout) else WRITERS[arguments.output]
    sys.stdout.write(_encodable(writer(result.entries), sys.stdout))
    _say([f"{problem}" for problem in result.problems])
    if arguments.output == "text":
        _say([summary(result)])
    return result.status(strict=arguments.strict)


def collect(found: Iterable[Manifest | ManifestError], settings: RuleSettings) -> Result:
    """Return what the rules find in all objects, by file and line."""
    result = Result()
    for item in found:
        if isinstance(item, ManifestError):
            result.problems.append(item)
        elif item.kind not in names.RAY_KINDS:
            result.skipped += item.document is not None
        else:
            result.objects += 1
            result.entries += _entries(item, settings)
    return result


def summary(result: Result) -> str:
    """Return one line about the whole run."""
    denied = sum(entry.level == DENY for entry in result.entries)
    warned = len(result.entries) - denied
    skipped = f"; {_counted(result.skipped, 'other object')} skipped" if result.skipped else ""
    return f"{_counted(result.objects, 'Ray object')}: {denied} denied, {_counted(warned, 'warning')}{skipped}"


def _entries(item: Manifest, settings: RuleSettings) -> list[Entry]:
    entries = [
        Entry(item.file, item.line(finding.field.tokens), finding.level, finding.rule, finding.path, finding.message)
        for finding in check_file(item.kind, item.document, settings)
        if finding.level != OFF
    ]
    return sorted(entries, key=lambda entry: entry.line)


def _settings(arguments: argparse.Namespace) -> tuple[RuleSettings, list[str]]:
    levels = dict(pair.partition("=")[::2] for pair in arguments.rule)
    gates, problems = {}, []
    for pair in arguments.gate:
        name, _, value = pair.partition("=")
        gates[name] = value.lower() in _ON
        if value.lower() not in _ON + _OFF:
            problems.append(f"--gate {pair}: write {name}=true or {name}=false")
    try:
        kuberay = parse_kuberay(arguments.kuberay)
    except ValueError:
        kuberay = None
        problems.append(f"--kuberay {arguments.kuberay}: write a release such as 1.6")
    settings = RuleSettings(levels, gates, frozenset(available_timezones()), kuberay=kuberay)
    return settings, problems + unknown_names(settings)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _colourful(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _encodable(output: str, stream: TextIO) -> str:
    """Return what a stream can take; names in a file may have characters that its encoding lacks."""
    encoding = stream.encoding or "utf-8"
    return output.encode(encoding, "backslashreplace").decode(encoding)


def _say(lines: list[str]) -> None:
    for line in lines:
        print(_encodable(line, sys.stderr), file=sys.stderr)  # noqa: T201 - this is a command
