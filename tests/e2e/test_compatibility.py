"""The document about compatibility, from reports of pytest. Needs no control plane."""

from pathlib import Path

import pytest

from tests.e2e import build
from tests.e2e.compatibility import document
from tests.e2e.matrix import taken
from tests.e2e.outcomes import Outcome, Outcomes, read
from tests.e2e.versions import NEWEST, OLD, UNPUBLISHED, Pair

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.e2e.test_load" name="test_many[as shipped]"/>
<testcase classname="tests.e2e.test_load" name="test_many[fast]">
<skipped type="pytest.skip" message="has no flags"/></testcase>
<testcase classname="tests.e2e.test_load" name="test_one">
<failure message="assert 1 == 2&#10;more">text</failure></testcase>
<testcase classname="tests.e2e.test_load" name="test_two">
<error message="no server">text</error></testcase>
</testsuite></testsuites>
"""


def outcomes(pair: Pair, **stories: Outcome) -> Outcomes:
    return Outcomes(
        pair.kuberay,
        pair.kubernetes,
        "now",
        "2026-11-22",
        60,
        stories={f"a.{k}": v for k, v in stories.items()},
    )


def test_the_cases_of_a_story_are_counted_together_and_an_error_is_a_failure() -> None:
    assert read(REPORT) == {
        "tests.e2e.test_load.test_many": Outcome(passed=1, not_run=1, reasons=["has no flags"]),
        "tests.e2e.test_load.test_one": Outcome(failed=1, reasons=["assert 1 == 2"]),
        "tests.e2e.test_load.test_two": Outcome(failed=1, reasons=["no server"]),
    }


def test_users_see_how_many_tests_of_a_pair_passed_and_no_date() -> None:
    failed = outcomes(OLD, test_bad=Outcome(failed=1, reasons=["assert"]))
    ran = outcomes(NEWEST, test_some=Outcome(passed=2, not_run=1, reasons=["has no gate"]))
    text = document({NEWEST: ran, OLD: failed, UNPUBLISHED: None}, "now")
    assert f"| {NEWEST.kuberay} | {NEWEST.kubernetes} | 2 passed, 1 not run |" in text
    assert f"| {OLD.kuberay} | {OLD.kubernetes} | 1 failed |" in text
    assert f"| {UNPUBLISHED.kuberay} | {UNPUBLISHED.kubernetes} | not run |" in text
    assert "2026" not in text


def test_what_a_pair_lacks_is_listed_with_what_its_users_have() -> None:
    text = document({NEWEST: None, OLD: None}, "now")
    assert (
        f"- No gate RayMultiHostIndexing in KubeRay {OLD.kuberay}. The webhook sets the identities"
        in text
    )
    assert f"- No PodGroups in Kubernetes {OLD.kubernetes}. " in text
    assert "is not published" not in text


def test_outcomes_are_kept_in_a_file_for_each_pair(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    assert Outcomes.load(OLD) is None
    kept = outcomes(OLD, test_some=Outcome(passed=2, not_run=1, reasons=["has no gate"]))
    kept.save()
    assert Outcomes.load(OLD) == kept
    assert Outcomes.load(NEWEST) is None


def test_reports_of_a_run_elsewhere_are_taken_in_and_count_as_earlier_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    failed = Outcome(failed=1, reasons=["not within 60 s"])
    outcomes(OLD, test_other=Outcome(passed=1), test_one=failed).save()
    case = '<testsuite><testcase classname="a" name="test_{0}"/></testsuite>'
    for name in ("one", "two"):
        (tmp_path / name).write_text(case.format(name))
    found = taken(OLD, [tmp_path / "one", tmp_path / "two"])
    assert len(found.stories) == 3
    assert found.stories["a.test_one"] == Outcome(passed=1)
    assert "with an earlier commit" in document({OLD: found}, "now")
