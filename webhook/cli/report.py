"""Findings in files, as text for people, or as JSON, GitHub annotations or SARIF for machines."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from webhook import __version__
from webhook.validation.finding import DENY, Level
from webhook.validation.ruleset import RULES

DOCUMENTATION: Final = "docs/rules.md"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_COLOURS: Final = {DENY: "\x1b[31m", "warn": "\x1b[33m"}
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"


class Entry(Struct, frozen=True):
    """One finding and its line."""

    file: str
    line: int
    level: Level
    rule: str
    path: str
    message: str


Writer = Callable[[list[Entry]], str]


def text(entries: list[Entry]) -> str:
    """Return `file:line: level rule-id path: message`, a line for each finding."""
    return _lines(
        f"{entry.file}:{entry.line}: {entry.level} {entry.rule} {entry.path}: {_one_line(entry.message)}" for entry in entries
    )


def coloured(entries: list[Entry]) -> str:
    """Return the text for a terminal."""
    return _lines(
        f"{_BOLD}{entry.file}:{entry.line}:{_PLAIN} {_COLOURS[entry.level]}{entry.level}{_PLAIN} {entry.rule} "
        f"{_BOLD}{entry.path}{_PLAIN}: {_one_line(entry.message)}"
        for entry in entries
    )


def as_json(entries: list[Entry]) -> str:
    """Return a JSON list of the findings."""
    fields = Entry.__struct_fields__
    return json.dumps([{name: getattr(entry, name) for name in fields} for entry in entries], indent=2) + "\n"


def github(entries: list[Entry]) -> str:
    """Return workflow commands, which GitHub shows as annotations of the lines.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
    """
    return _lines(
        f"::{'error' if entry.level == DENY else 'warning'} file={_property(entry.file)},line={entry.line},"
        f"title={_property(entry.rule)}::{_data(f'{entry.path}: {entry.message}')}"
        for entry in entries
    )


def sarif(entries: list[Entry]) -> str:
    """Return a SARIF 2.1.0 log, as code scanning takes it.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    index = {rule.id: number for number, rule in enumerate(RULES)}
    driver = {
        "name": "ray-webhook",
        "version": __version__,
        "rules": [_sarif_rule(rule.id, rule.level, rule.check) for rule in RULES],
    }
    run = {"tool": {"driver": driver}, "results": [_sarif_result(entry, index[entry.rule]) for entry in entries]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_rule(name: str, level: Level, check: Callable[..., Any]) -> dict[str, Any]:
    what = (check.__doc__ or "").split("\n\n", 1)[0].strip()
    return {
        "id": name,
        "shortDescription": {"text": " ".join(what.split())},
        "help": {"text": f"{DOCUMENTATION}#{name}"},
        "defaultConfiguration": {"level": _sarif_level(level)},
    }


def _sarif_result(entry: Entry, index: int) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": quote(entry.file)}, "region": {"startLine": entry.line}}
    return {
        "ruleId": entry.rule,
        "ruleIndex": index,
        "level": _sarif_level(entry.level),
        "message": {"text": f"{entry.path}: {entry.message}"},
        "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": entry.path}]}],
    }


def _sarif_level(level: Level) -> str:
    return "error" if level == DENY else "warning"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _one_line(message: str) -> str:
    return "".join(character if character.isprintable() else " " for character in message)


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


WRITERS: Final[dict[str, Writer]] = {"text": text, "json": as_json, "github": github, "sarif": sarif}
