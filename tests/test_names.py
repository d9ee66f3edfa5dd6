"""Names of variables say what the value is, and names of functions are verbs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

FILES = sorted((ROOT / "webhook").rglob("*.py"))
GENERIC = {
    *("each", "found", "known", "what", "held", "said", "shown", "given", "wanted", "asked"),
    *("kept", "seen", "made", "others", "own", "called", "words", "text"),
}
PARTICIPLES = {"said", "shown", "held", "kept", "written", "given", "told", "made", "found"}
IDS = {"ignored", "suspended", "autoscaled_without_groups", "shared_memory_above_limit"}
"""Functions whose names are ids of rules and diagnoses."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def parameters(function: Function) -> set[str]:
    arguments = function.args
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_variables_are_not_generic_and_functions_are_not_participles(path: Path) -> None:
    tree = ast.parse(path.read_text())
    generic = {
        f"{function.name}: {node.id}"
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if node.id in GENERIC - parameters(function)
    }
    assert not generic, "name what the value is"
    participles = {
        node.name
        for node in tree.body
        if isinstance(node, Function) and node.name not in IDS
        if (first := node.name.strip("_").split("_")[0]) in PARTICIPLES or first.endswith("ed")
    }
    assert not participles, "begin the name with a verb"
