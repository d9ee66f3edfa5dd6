"""Objects as YAML."""

from collections.abc import Iterable
from typing import Any

import yaml


def as_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Return objects as the documents of a file, with the order of their fields."""
    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=132)
    return text
