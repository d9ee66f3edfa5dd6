"""YAML in a field is accepted and refused as in Go; each case was tried with KubeRay 1.6.2."""

import pytest

from webhook.manifest.inline import read_map


@pytest.mark.parametrize("text", [
    "", "~", "---\n...\n", "a: b", "{a: b}}", "a: b\n---\n[", "a: 1\na: 2", "true: x", "1.5: a",
    "a: &b 1\nb: *b", "<<: {a: b}", "<<: [{a: b}, {c: d}]", "a: &x {b: c}\n<<: *x", "'<<': 1",
    "a: !foo b", "a: !!str [b]", "a: !!float 1", "a: !!bool yes", "a: !!binary aGk=", "{a, b}",
    "!!str a: b", '"null": x', "a: 0b_", "%YAML 1.1\n---\na: b",
    "a: &b 1\nb: &b 2",
])  # fmt: skip
def test_what_go_takes_is_taken(text: str) -> None:
    assert read_map(text, "a: 1").problem == ""


@pytest.mark.parametrize("text", [
    "null: x", "~: 1", ": x", "[a]: b", "? {a: b}\n: c", "<<: 1", "<<: [1]", "a: *b",
    "a: &a {b: *a}", "- a", "x", "a: [", "a: \x07", "%YAML 1.2\n---\na: b",
])  # fmt: skip
def test_what_go_refuses_is_refused(text: str) -> None:
    assert read_map(text, "a: 1").problem


def test_a_problem_names_line_and_alias() -> None:
    problem = read_map("ä: ö\nb: [*other, 1]", "a: 1").problem
    assert problem == "not YAML: line 2: found undefined alias *other"
