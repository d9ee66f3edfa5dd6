"""Modules have no state: no function changes a value of a module. What a process reads of its
settings, or of a cluster, is passed.
"""

import ast
from collections.abc import Iterator

import pytest

from tests import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

MUTATING = frozenset(
    [
        "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "put", "remove",
        "setdefault", "sort", "update",
    ]
)  # fmt: skip
"""Methods that change a collection or a cache."""

CACHED = ("cache", "lru_cache")
"""Decorators that keep results in a module."""

_CONSTANT = "a constant of the package, made when it is used first"
ALLOWED = {
    "api/times.py: lru_cache": "times of pods, of 30 characters at most: 7 % of a report",
    "cli/main.py: sys": "a process without standard input gets one",
    "config/configuration.py: cache": _CONSTANT,
    "config/time_zones.py: cache": _CONSTANT,
    "validation/crd.py: cache": _CONSTANT,
    "validation/decoding.py: cache": _CONSTANT,
}
"""The state of modules, each with its reason."""


def changes(tree: ast.Module) -> Iterator[str]:
    """Yield the values of a module that its functions change, and the caches of functions."""
    names = set(_module_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        if isinstance(node, ast.Name | ast.Attribute) and _last(node) in CACHED:
            yield _last(node)
        if isinstance(node, Function):
            yield from _changes(node, names - set(_local_names(node)))


def _changes(function: Function, names: set[str]) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                changed = _first(value)
            case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
                changed = _first(value)
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in MUTATING:
                changed = _first(value)
            case _:
                continue
        if changed in names:
            yield changed


def _first(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _module_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        for child in ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _local_names(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def test_no_function_changes_a_value_of_a_module() -> None:
    package = ROOT / "webhook"
    assert {
        f"{path.relative_to(package).as_posix()}: {change}"
        for path in package.rglob("*.py")
        for change in changes(ast.parse(path.read_text("utf-8")))
    } == ALLOWED.keys()


@pytest.mark.parametrize("line", [
    *("TABLE[0] = 1", "TABLE[:] = []", "TABLE.append(1)", "del TABLE[0]", "TABLE[0] += 1"),
    *("TABLE.size = 2", "module.TABLE.clear()", "module.TABLE[0] = 1"),
])  # fmt: skip
def test_every_way_of_changing_a_value_is_seen(line: str) -> None:
    text = f"import module\nTABLE = []\ndef change():\n    {line}\n"
    assert [*changes(ast.parse(text))]


@pytest.mark.parametrize("line", ["TABLE = []; TABLE.append(1)", "TABLE.index(1)", "TABLE[0].real"])
def test_local_values_and_reads_are_no_change(line: str) -> None:
    assert not [*changes(ast.parse(f"TABLE = []\ndef read():\n    {line}\n"))]
