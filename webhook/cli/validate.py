"""`ray-webhook validate`: check the Ray objects in files by the validation rules of the webhook."""

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, TextIO

import msgspec
from msgspec import structs

from webhook.api.formats import many_lines
from webhook.cli.file_checks import check_documents, check_files
from webhook.cli.parsing import (
    WRONG,
    add_connection,
    add_paths,
    colourful,
    number,
    paths_of,
    refuse,
)
from webhook.cli.sarif import sarif
from webhook.cli.validation_report import (
    FindingLine,
    Report,
    as_json,
    github,
    text,
    without_known,
)
from webhook.config.settings_file import NAME, nearest_settings_file, read_rules
from webhook.diagnostics.messages import format_count, pluralize
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.finding import DENY, OFF, WARN
from webhook.validation.rule_settings import RuleSettings, parse_kuberay
from webhook.validation.ruleset import unknown_names

WRITERS: Final[dict[str, Callable[[Report], str]]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}
_NOTHING: Final = "no Ray object was found, so nothing was checked"
_ON: Final = ("true", "on", "1", "yes")
_OFF: Final = ("false", "off", "0", "no")
_OF_CLUSTER: Final = ("namespace", "all_namespaces", "context", "kubeconfig")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook validate raycluster.yaml rayjobs/\n"
        "  kubectl kustomize . | ray-webhook validate - -o github\n\n"
        "exit status: 0 nothing is denied, 1 something is (with --strict: or warned of), 2 a file "
        "or folder cannot be read or checked"
    )
    add_paths(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=tuple(WRITERS),
        default="text",
        help="the format of findings (default: text)",
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=number("a number of processes", 1, 256),
        default=0,
        metavar="NUMBER",
        help="processes that check many files (default: one for each core)",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    parser.add_argument(
        "--require", action="store_true", help="exit with 2 when there was nothing to check"
    )
    parser.add_argument(
        "--baseline",
        default="",
        metavar="FILE",
        help="leave out the findings of an earlier run, which `-o json` has written",
    )
    parser.add_argument(
        "--cluster", action="store_true", help="check what lives in a cluster, in place of files"
    )
    parser.add_argument(
        "--config",
        default="",
        metavar="PATH",
        help="file with settings, whose rules, devices and profiles count, before the flags below "
        f"(default: {NAME} in this folder or one above)",
    )
    _add_rules(parser)
    add_connection(parser)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="ID=LEVEL",
        help=f"the level of a rule: {OFF}, {WARN} or {DENY}; may be repeated",
    )
    parser.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="NAME=BOOL",
        help="a feature gate of the KubeRay operator; may be repeated",
    )
    parser.add_argument(
        "--kuberay",
        default="",
        metavar="RELEASE",
        help=(
            "the release of KubeRay, such as 1.6 (default: the newest that the rules know; what no "
            "earlier one checks is a warning then)"
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """Check the objects in files or in a cluster, print the findings, and return the exit status.

    The exit status is 2 if a file could not be read, 1 for a denial, or with `--strict` for a
    warning.
    """
    paths = paths_of(arguments)
    settings, problems = _settings(arguments)
    if bool(paths) == arguments.cluster:
        problems.append(
            "name at least one file, folder, or - for standard input; or read a --cluster, but not "
            "both"
        )
    if not arguments.cluster and any(getattr(arguments, name) for name in _OF_CLUSTER):
        problems.append(
            "-n, -A, --context and --kubeconfig choose what to read from a cluster: add --cluster, "
            "or leave them out"
        )
    baseline, unusable = _baseline(arguments.baseline)
    problems += unusable
    if problems:
        return refuse("validate", "\n".join(problems))
    if arguments.cluster:
        # The client of the API server takes a second to load
        connection = import_module("webhook.cli.connection")
        manifests, release = connection.with_cluster(arguments, connection.ray_objects)
        report = check_documents(manifests, structs.replace(settings, kubernetes=release))
    else:
        report = check_files(paths, settings, arguments.jobs)
    if arguments.require and not report.objects:
        report.problems.append(ManifestError(paths[0] if paths else "", 0, _NOTHING))
    every, report.entries = report.entries, without_known(report.entries, baseline)
    report.known = len(every) - len(report.entries)
    colours = arguments.output == "text" and colourful(sys.stdout)
    writer = partial(text, colours=True) if colours else WRITERS[arguments.output]
    sys.stdout.write(_encodable(writer(report), sys.stdout))
    _say(map(str, (*report.problems, *report.notes, *report.patches)))
    if arguments.output == "text":
        _say([_summary(report)])
    # Before the findings: what could not be read may contain denials.
    if report.problems:
        return WRONG
    denied = any(entry.level == DENY for entry in report.entries)
    return int(denied or bool(arguments.strict and (report.entries or report.notes)))


def _baseline(path: str) -> tuple[list[FindingLine], list[str]]:
    """Return the findings of an earlier run with `-o json`, or an error."""
    if not path:
        return [], []
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=list[FindingLine]), []
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or error
        return [], [f"--baseline {path}: {problem}; make one with `-o json`"]


def _summary(report: Report) -> str:
    """Return a summary of the run in one line."""
    denied = sum(entry.level == DENY for entry in report.entries)
    warned = len(report.entries) - denied
    known_note = f"; {report.known} known from the baseline" if report.known else ""
    skipped = f"; {format_count(report.skipped, 'other object')} skipped" if report.skipped else ""
    if report.patches:
        number = len(report.patches)
        skipped = f"; {number} {pluralize(number, 'patch', 'patches')} skipped{skipped}"
    errors, warnings = format_count(denied, "error"), format_count(warned, "warning")
    objects = format_count(len(report.objects), "object")
    return f"{errors}, {warnings} in {objects}{known_note}{skipped}"


def _settings(arguments: argparse.Namespace) -> tuple[RuleSettings, list[str]]:
    rules = read_rules(arguments.config or nearest_settings_file())
    levels, gates = dict(rules.levels), dict(rules.gates)
    problems = []
    for pair in arguments.rule:
        name, equals, level = pair.partition("=")
        if equals:
            levels[name] = level
        else:
            problems.append(f"--rule {pair}: write {pair}={OFF}, {pair}={WARN} or {pair}={DENY}")
    for pair in arguments.gate:
        name, _, value = pair.partition("=")
        if value.lower() in _ON + _OFF:
            gates[name] = value.lower() in _ON
        else:
            problems.append(f"--gate {pair}: write {name}=true or {name}=false")
    try:
        kuberay = parse_kuberay(arguments.kuberay) or rules.kuberay
    except ValueError:
        kuberay = None
        problems.append(f"--kuberay {arguments.kuberay}: write a release such as 1.6")
    settings = structs.replace(rules, levels=levels, gates=gates, kuberay=kuberay)
    return settings, problems + unknown_names(settings)


def _encodable(output: str, stream: TextIO) -> str:
    """Return a text that a stream can encode; names in a file may contain other characters."""
    encoding = stream.encoding or "utf-8"
    return output.encode(encoding, "backslashreplace").decode(encoding)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stderr.write(f"{_encodable(many_lines(line), sys.stderr)}\n")
