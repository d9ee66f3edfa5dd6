"""Names of other projects: the code reads each of them."""

import ast
from pathlib import Path

from webhook.api import names

CODE = Path(names.__file__).parents[1]


def test_every_name_is_read_by_something() -> None:
    read = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in CODE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert [name for name in vars(names) if name.isupper() and name not in read] == []
