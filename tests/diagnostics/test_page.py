"""docs/diagnoses.md describes the diagnoses."""

import re
from typing import Any

import pytest

from tests.diagnostics.page import PAGE, explained, page
from webhook.diagnostics.diagnosis import Diagnosis
from webhook.diagnostics.examination import DIAGNOSES


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.diagnostics.page"


@pytest.mark.parametrize("diagnosis", DIAGNOSES, ids=lambda diagnosis: diagnosis.id)
def test_every_diagnosis_says_what_it_shows_why_it_hurts_and_where_that_comes_from(
    diagnosis: Diagnosis[Any],
) -> None:
    what, why, source = explained(diagnosis)
    assert what.endswith(".")
    assert why.endswith(".")
    assert re.fullmatch(r"https://\S+", source), source


def test_no_two_diagnoses_have_one_id() -> None:
    assert len({diagnosis.id for diagnosis in DIAGNOSES}) == len(DIAGNOSES)
