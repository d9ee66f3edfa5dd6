"""A report as SARIF 2.1.0, for code scanning."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from webhook import __version__
from webhook.api.formats import json_text, one_line
from webhook.cli.validation_report import FindingLine, Report, identity, relative
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.finding import DENY, Level
from webhook.validation.rules import RULES

DOCUMENTATION: Final = "docs/rules.md"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_ADDRESS: Final = re.compile(r"https://[^\s)]+")


def sarif(report: Report) -> str:
    """Return a SARIF 2.1.0 log, for code scanning.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    index = {rule.id: number for number, rule in enumerate(RULES)}
    driver = {
        "name": "ray-webhook",
        "version": __version__,
        "rules": [_sarif_rule(rule.id, rule.level, rule.check) for rule in RULES],
    }
    identity_counts: Counter[str] = Counter()
    notifications = [
        *(_notification(problem, "error") for problem in report.problems),
        *(_notification(note, "warning") for note in report.notes),
    ]
    invocation = {
        "executionSuccessful": not report.problems,
        "toolExecutionNotifications": notifications,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [
            _sarif_result(entry, index[entry.rule], identity_counts) for entry in report.entries
        ],
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_rule(name: str, level: Level, check: Callable[..., Any]) -> dict[str, Any]:
    paragraphs = [" ".join(paragraph.split()) for paragraph in (check.__doc__ or "").split("\n\n")]
    source = _ADDRESS.search(check.__doc__ or "")
    descriptor = {
        "id": name,
        "shortDescription": {"text": paragraphs[0].strip()},
        "fullDescription": {"text": " ".join(paragraphs[:2]).strip()},
        "help": {"text": f"{DOCUMENTATION}#{name}"},
        "defaultConfiguration": {"level": _sarif_level(level)},
    }
    return descriptor | ({"helpUri": source[0].rstrip(".")} if source else {})


def _sarif_result(entry: FindingLine, index: int, seen: Counter[str]) -> dict[str, Any]:
    where = [{"fullyQualifiedName": one_line(entry.path)}]
    identity_text = "\n".join(identity(entry))
    seen[identity_text] += 1
    digest = hashlib.sha256(
        f"{identity_text}\n{seen[identity_text]}".encode(errors="replace")
    ).hexdigest()
    return {
        "ruleId": entry.rule,
        "ruleIndex": index,
        "level": _sarif_level(entry.level),
        "message": {"text": one_line(f"{entry.path}: {entry.message}")},
        "locations": [
            {"physicalLocation": _place(entry.file, entry.line), "logicalLocations": where}
        ],
        "partialFingerprints": {"fileRulePath/v1": digest},
    }


def _notification(problem: ManifestError, level: str) -> dict[str, Any]:
    place = {"physicalLocation": _place(problem.file, problem.line)}
    return {"level": level, "message": {"text": one_line(problem.problem)}, "locations": [place]}


def _place(file: str, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(relative(file))}}
    return place | ({"region": {"startLine": line}} if line else {})


def _sarif_level(level: Level) -> str:
    return "error" if level == DENY else "warning"
