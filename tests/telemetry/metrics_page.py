"""Writes docs/metrics.md from the code that declares metrics: `python -m
tests.telemetry.metrics_page`.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"
PROCESSES = ("serve", "controller", "dashboard")

_KINDS = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "counter": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "gauge": "gauge",
    "HistogramMetricFamily": "histogram",
}

_HEAD = """# Metrics

Generated from the code that declares them by `python -m tests.telemetry.metrics_page`; a test fails
when it is out of date.

Each process exposes its own at `/metrics` of its port for probes, in the Prometheus format, besides
`process_*` and `python_gc_*`. [prometheus.md](prometheus.md) says how they are scraped, and
[alerts.md](alerts.md) what to do when one of them is bad. A gauge of something that all processes
of `serve` see, such as unseen claims, is the same in each: take the maximum.
"""


class Declared(NamedTuple):
    """A metric: its name as it is scraped, kind, labels and help, and the module it stands in."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    module: str


def page() -> str:
    """Return the page."""
    found = sorted({each for path in _modules().values() for each in declared(path)})
    reach = {process: _reached(f"webhook.wiring.{process}") for process in PROCESSES}
    parts = [_HEAD]
    for process in PROCESSES:
        parts.append(f"\n## {process}\n\n| metric | kind | labels | |\n|---|---|---|---|\n")
        parts += [
            f"| `{each.name}` | {each.kind} | {', '.join(f'`{key}`' for key in each.labels)} | "
            f"{each.text} |\n"
            for each in found
            if each.module in reach[process]
        ]
    return "".join(parts)


def declared(path: Path) -> Iterator[Declared]:
    """Yield the metrics that a module declares."""
    tree = _tree(path)
    named = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        texts = {**named}
        for node in _in_order(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                texts[node.targets[0].id] = node.value
            if isinstance(node, ast.Call) and (kind := _kind(node)) and _is_ours(node):
                name = ast.literal_eval(node.args[0])
                given = [kw.value for kw in node.keywords if kw.arg == "labels"]
                labels = next(iter([*given, *node.args[2:3]]), None)
                yield Declared(
                    f"{name}_total" if kind == "counter" else name,
                    kind,
                    _labels(labels, texts),
                    ast.literal_eval(_of(node.args[1], texts)),
                    _name_of(path),
                )


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _in_order(function: ast.FunctionDef) -> list[ast.stmt | ast.expr]:
    places = [node for node in ast.walk(function) if isinstance(node, ast.stmt | ast.expr)]
    return sorted(places, key=lambda node: (node.lineno, node.col_offset))


def _kind(call: ast.Call) -> str | None:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return _KINDS.get(name)


def _is_ours(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and str(first.value).startswith("ray_webhook_")


def _of(node: ast.expr, texts: dict[str, ast.expr]) -> ast.expr:
    return texts.get(node.id, node) if isinstance(node, ast.Name) else node


def _labels(node: ast.expr | None, texts: dict[str, ast.expr]) -> tuple[str, ...]:
    if node is None:
        return ()
    known = _of(node, texts)
    if not isinstance(known, ast.List | ast.Tuple):
        return ()
    found: list[str] = []
    for each in known.elts:
        if isinstance(each, ast.Starred):
            found += _labels(each.value, texts)
        else:
            found.append(ast.literal_eval(each))
    return tuple(found)


def _modules() -> dict[str, Path]:
    return {_name_of(path): path for path in sorted((ROOT / "webhook").rglob("*.py"))}


def _name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _reached(root: str) -> set[str]:
    """Return the modules that a process may import: what its composition imports, and so on."""
    modules, seen, todo = _modules(), set[str](), [root]
    while todo:
        name = todo.pop()
        if name in seen or name not in modules:
            continue
        seen.add(name)
        for node in ast.walk(_tree(modules[name])):
            if isinstance(node, ast.ImportFrom) and node.module:
                todo += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                todo += [alias.name for alias in node.names]
    return seen


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
