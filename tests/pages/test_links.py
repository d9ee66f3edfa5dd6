"""Links refer to existing files and sections, including those in code and manifests."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "manifests").rglob("*.md"),
        *(ROOT / "certs").rglob("*.md"),
    ]
)
FOLDERS = ("webhook", "manifests", "certs", "tests", "examples", ".ci", ".github")
NAMING = [
    *(ROOT / name for name in ("Makefile", "Dockerfile", "pyproject.toml")),
    *(
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".yaml", ".json", ".txt", ".tpl", ""} and path.is_file()
    ),
]
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_NAMED = re.compile(r"(?<![\w/.])docs/([\w/-]+\.md)(?:#([\w-]+))?")


@cache
def sections(page: Path) -> frozenset[str]:
    """Return the anchors of a page, as GitHub and the site make them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.findall(r'<a id="([\w-]+)">', text)) | frozenset(
        re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings
    )


def leads_nowhere(page: Path, anchor: str) -> bool:
    return not page.exists() or bool(anchor and anchor not in sections(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_its_section(page: Path) -> None:
    found = _LINK.findall(page.read_text())
    broken = [
        f"{target}#{anchor}"
        for target, anchor in found
        if leads_nowhere(page.parent / target if target else page, anchor)
    ]
    assert broken == []


def test_every_page_that_is_named_elsewhere_exists_with_its_section() -> None:
    broken = []
    for path in NAMING:
        for name, anchor in _NAMED.findall(path.read_text(encoding="utf-8", errors="replace")):
            if "NNNN" not in name and leads_nowhere(ROOT / "docs" / name, anchor):
                broken.append(f"{path.relative_to(ROOT)}: docs/{name}#{anchor}")
    assert broken == []
