"""All texts for users on one page: output of the program, of the chart and of its alerts.

`python -m tests.texts` writes docs/contributing/texts.md. A reviewer reads it in ten minutes.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from tests.pages import folded

PAGE: Final = Path("docs/contributing/texts.md")
_HEAD: Final = """# Texts

Every text that the program shows, by module, with `…` for a value. A text that no one would say to
a colleague is a defect. `python -m tests.texts` writes this page; a test holds it up to date.
"""
_WORDS: Final = re.compile(r"[A-Za-z]{2,}[,:;]? +[A-Za-z`'(…]+[,:;]? +[A-Za-z`'(…0-9]+")
"""Three words in a row: a text, and not a pattern or a path."""
_CHART: Final = Path("manifests/chart")


def page() -> str:
    parts = [_HEAD]
    parts += [
        f"## `{path}`\n\n" + "\n".join(f"- {text}" for text in texts) + "\n"
        for path in sorted(Path("webhook").rglob("*.py"))
        if (texts := [*dict.fromkeys(_texts(ast.parse(path.read_text())))])
    ]
    notes = (_CHART / "templates/NOTES.txt").read_text().rstrip()
    parts.append(f"## Notes of the chart\n\n```text\n{notes}\n```\n")
    alerts = yaml.safe_load((_CHART / "files/alerts.yaml").read_text())
    lines = [
        f"- {rule['alert']}: {' '.join(rule['annotations'][part].split())}"
        for group in alerts["groups"]
        for rule in group["rules"]
        for part in ("summary", "action")
    ]
    parts.append("## Alerts\n\n" + "\n".join(lines) + "\n")
    return folded("\n".join(parts))


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts in a module, in order: literals that are neither docstrings nor part of
    another text.
    """
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    text = None
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        text = tree.value
    elif isinstance(tree, ast.JoinedStr):
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "…" for part in tree.values
        )
    if text is None or not _WORDS.search(text):
        for child in ast.iter_child_nodes(tree):
            yield from _texts(child)
        return
    yield " ".join(text.split())
    if isinstance(tree, ast.JoinedStr):
        for part in tree.values:
            if isinstance(part, ast.FormattedValue):
                yield from _texts(part)


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
