"""No text for users contains a private word: of the program, of the chart and of its alerts."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

_WORDS: Final = re.compile(r"[A-Za-z]{2,}[,:;]? +[A-Za-z`'(…]+[,:;]? +[A-Za-z`'(…0-9]+")
"""Three words in a row: a text, and not a pattern or a path."""
PRIVATE: Final = re.compile(
    r"\b(told|tell|tells|telling|heard|whoever|nobody|anew|underway|forestall\w*|strangers?"
    r"|condemned|torn|sealed|ledger|floors?|rooms?|mend(?:s|ed)?|what stands|for ever|seats?)\b",
    re.IGNORECASE,
)
"""Words that none of them may contain."""
_CHART: Final = Path("manifests/chart")


def texts_by_source() -> dict[str, list[str]]:
    """Return the texts of each module and of each file of the chart, with `…` for a value."""
    modules = sorted(Path("webhook").rglob("*.py"))
    texts = {str(path): [*dict.fromkeys(_texts(ast.parse(path.read_text())))] for path in modules}
    notes = _CHART / "templates/NOTES.txt"
    texts[str(notes)] = notes.read_text().splitlines()
    alerts = _CHART / "files/alerts.yaml"
    texts[str(alerts)] = [
        f"{rule['alert']}: {' '.join(text.split())}"
        for group in yaml.safe_load(alerts.read_text())["groups"]
        for rule in group["rules"]
        for text in rule["annotations"].values()
    ]
    return {source: lines for source, lines in texts.items() if lines}


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts in a module: literals that are neither docstrings nor part of a text."""
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


def test_no_text_contains_a_private_word() -> None:
    private = [
        f"{source}: {word.group()!r} in {line!r}"
        for source, lines in texts_by_source().items()
        for line in lines
        for word in PRIVATE.finditer(line)
    ]
    assert private == [], "use the words of Kubernetes, KubeRay and Ray"


def test_a_private_word_is_found() -> None:
    assert PRIVATE.search("a pod that nobody reserved")
    assert not PRIVATE.search("a pod that is not ready")
