"""Write all generated files: `python -m tests.generate`; with `--check`, name those that are out of
date, and exit with 1.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.e2e import compatibility
from tests.manifests import chart_page, chart_schema, install
from tests.pages import annotations, commands, diagnoses, metrics, rules, settings
from tests.scenarios.admitted import SCENARIOS, admission, admitted, text_of
from tests.webhook.diagnostics import test_alerts

Files = Mapping[Path, str]


def _scenarios() -> Files:
    with admission() as api:
        return {scenario / "want.yaml": text_of(admitted(scenario, api)) for scenario in SCENARIOS}


GENERATED: Final[Mapping[str, Callable[[], Files]]] = {
    "rules": rules.pages,
    "annotations": lambda: {annotations.PAGE: annotations.page()},
    "chart schema": lambda: {chart_schema.FILE: chart_schema.text()},
    "chart": lambda: {chart_page.PAGE: chart_page.page()},
    "installation": install.files,
    "commands": lambda: {commands.PAGE: commands.page()},
    "diagnoses": lambda: {
        diagnoses.PAGE: diagnoses.page(),
        diagnoses.SCHEMA: diagnoses.schema_text(),
    },
    "alerts": test_alerts.files,
    "metrics": lambda: {metrics.PAGE: metrics.page()},
    "compatibility": lambda: {compatibility.PAGE: compatibility.page()},
    "settings": lambda: {settings.PAGE: settings.page()},
    "scenarios": _scenarios,
}
"""The files of each subject with their content."""


def stale(subject: str) -> Files:
    """Return the files that differ from their content, which is empty for one to remove."""
    files = GENERATED[subject]()
    surplus = {*rules.FOLDER.glob("*.md")} - files.keys() if subject == "rules" else set()
    found = {
        path: text
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    return found | dict.fromkeys(surplus, "")


def write() -> list[Path]:
    """Write the stale files and return them. The chart's schema is read by the pages after it."""
    written: list[Path] = []
    for subject in GENERATED:
        for path, text in stale(subject).items():
            if text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            else:
                path.unlink()
            written.append(path)
    return written


def main(words: list[str]) -> int:
    if words == ["--check"]:
        paths = [path for subject in GENERATED for path in stale(subject)]
        for path in paths:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: run `make generate`\n")
        return int(bool(paths))
    for path in write():
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
