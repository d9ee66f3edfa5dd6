"""Decision records have unique numbers and a status, and are in the index."""

import re

from tests import ROOT

FOLDER = ROOT / "docs" / "contributing" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def test_each_record_has_a_number_of_its_own() -> None:
    numbers = [path.name[:5] for path in RECORDS]
    assert [number for number in numbers if not re.fullmatch(r"\d{4}-", number)] == []
    assert sorted(set(numbers)) == numbers, (
        "name a new record by the next number: docs/contributing/decisions/NNNN-its-subject.md"
    )


def test_each_record_has_a_title_a_status_and_a_place_in_the_index() -> None:
    index = (FOLDER / "README.md").read_text().splitlines()
    for path in RECORDS:
        lines = path.read_text().splitlines()
        assert lines[0].startswith("# "), path.name
        status = re.fullmatch(r"Status: (accepted, \d{4}-\d\d-\d\d)", lines[2])
        assert status, (
            f"{path.name}: the third line is its status, such as `Status: accepted, 2026-11-22`"
        )
        row = f"| [{path.name[:4]}]({path.name}) | {lines[0][2:]} | {status[1]} |"
        assert row in index, path.name


def test_each_record_is_named_by_what_it_governs() -> None:
    named = {
        name
        for folder in ("webhook", "manifests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yaml"}
        for name in re.findall(r"docs/contributing/decisions/(\d{4}-[\w-]+\.md)", path.read_text())
    }
    assert named == {path.name for path in RECORDS}, (
        "write docs/contributing/decisions/NNNN-its-subject.md where the code begins that the "
        "record governs, and what supersedes a record in place of it"
    )
