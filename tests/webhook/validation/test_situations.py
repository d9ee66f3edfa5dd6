"""The table of situations from the field names rules and diagnoses that exist."""

import re

from tests import ROOT
from webhook.diagnostics.examination import DIAGNOSES
from webhook.validation.rules import RULES

PAGE = ROOT / "docs" / "contributing" / "situations.md"


def test_every_situation_has_an_answer_that_exists() -> None:
    text = PAGE.read_text()
    rows = re.findall(r"^\| (?!situation)(.+) \| (.+) \|$", text, re.MULTILINE)
    assert f"mean: {len(rows)} situations" in text
    answers = {answer for _, answer in rows if answer != "a note of `ray-webhook validate`"}
    existing = {rule.id for rule in RULES} | {diagnosis.id for diagnosis in DIAGNOSES}
    assert {answer.strip("`") for answer in answers} <= existing


def test_every_section_has_a_reference() -> None:
    _, *sections = PAGE.read_text().split("\n## ")
    assert all(
        re.search(r"^(Reports|Source):[^|]*https://", part, re.MULTILINE) for part in sections
    )
