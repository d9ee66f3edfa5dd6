"""YAML in a field is accepted and refused as in Go; each case was tried with KubeRay 1.6.2."""

import pytest

from webhook.manifest.inline import read_map

TAKEN = [
    "", "~", "---\n...\n", "a: b", "{a: b}}", "a: b\n---\n[", "a: 1\na: 2", "true: x", "1.5: a",
    "a: &b 1\nb: *b", "<<: {a: b}", "<<: [{a: b}, {c: d}]", "a: &x {b: c}\n<<: *x", "'<<': 1",
    "a: !foo b", "a: !!str [b]", "a: !!float 1", "a: !!bool yes", "a: !!binary aGk=", "{a, b}",
    "!!str a: b", '"null": x', "a: 0b_", "%YAML 1.1\n---\na: b", "a: &b 1\nb: &b 2", "a: !!int '5'",
    "a: !!int 0x1F", "a: !!bool 'yes'", "a: !!null ''", "a: !!timestamp 2024-01-01", "a: !!map b",
    "a: !!int [1]", "&a b: 1", "&a b: &c 1\n*a : 2", "!!int 5: a", "a: '.inf'", "a: !!merge x",
]  # fmt: skip
REFUSED = [
    "null: x", "~: 1", ": x", "[a]: b", "? {a: b}\n: c", "<<: 1", "<<: [1]", "a: *b",
    "a: &a {b: *a}", "- a", "x", "a: [", "a: \x07", "%YAML 1.2\n---\na: b", "a: !!int abc",
    "a: !!int 1.5", "a: !!float x", "a: !!bool 5", "a: !!null x", "a: !!timestamp x",
    "a: !!binary $$", "a: !<tag:yaml.org,2002:int> x", "!!float x: a", "!!int a: b", "a: !!int ''",
    "a: .inf", "a: -.Inf", "a: .nan", "a: !!float 1e400", "&a: 1", "a: &x {b: c}\n*x : 1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "is_taken"), [
    *((text, True) for text in TAKEN), *((text, False) for text in REFUSED),
])  # fmt: skip
def test_what_go_refuses_is_refused_and_all_else_is_taken(text: str, is_taken: bool) -> None:
    assert (read_map(text, "a: 1").problem == "") is is_taken


def test_a_problem_has_the_words_of_the_parser_of_kuberay() -> None:
    problem = read_map("env_vars:\n  A: !!int abc", "a: 1").problem
    assert problem == "not YAML: line 2: cannot decode !!str `abc` as a !!int"


def test_a_problem_names_line_and_alias() -> None:
    problem = read_map("ä: ö\nb: [*other, 1]", "a: 1").problem
    assert problem == "not YAML: line 2: found undefined alias *other"
