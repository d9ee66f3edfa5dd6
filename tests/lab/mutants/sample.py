"""Print a sample of mutants as lines of JSON: `python -m tests.lab.mutants.sample COUNT SEED`.

The program runs in a separate environment, because only this module needs Cosmic Ray, which creates
the mutants.
"""

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

CHOSEN: Final = re.compile(
    "core/(AddNot|Replace(True|False|And|Or|Break|Continue)With.*|NumberReplacer"
    "|ZeroIterationForLoop|ReplaceUnaryOperator_Delete_Not|ReplaceBinaryOperator_(Add_Sub|Sub_Add)"
    "|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Is_IsNot|IsNot_Is))"
)
"""The operators whose mutants differ from the program in what it does."""
EQUIVALENT: Final = ("frozen=", "gc=")
"""Arguments of classes that change nothing which a correct program does: mypy finds assignments to
frozen objects, and `gc` only excludes objects from the collector.
"""


def places() -> Iterator[tuple[Path, str, int, int]]:
    operators = {name: get_operator(name)() for name in operator_names() if CHOSEN.fullmatch(name)}
    for path in sorted(Path("webhook").rglob("*.py")):
        code = path.read_text()
        lines = code.splitlines()
        nodes = list(ast_nodes(get_ast(code)))
        for name, operator in operators.items():
            found = [place for node in nodes for place in operator.mutation_positions(node)]
            for number, ((line, column), _) in enumerate(found):
                if not lines[line - 1][:column].endswith(EQUIVALENT):
                    yield path, name, number, line


def main(count: int, seed: int) -> None:
    every = list(places())
    for path, name, number, line in random.Random(seed).sample(every, count):  # noqa: S311 - not a secret
        code = mutate_code(path.read_text(), get_operator(name)(), number)
        print(json.dumps({"path": str(path), "line": line, "operator": name, "code": code}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
