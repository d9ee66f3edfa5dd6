"""The nesting depth of YAML, on which libyaml's composer, recursive C, would crash."""

from typing import Final

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent

DEEPEST: Final = 200
"""The maximum of nested collections. A Kubernetes object has about twenty."""


def too_deep_at(text: str) -> int | None:
    """Return the line (from 1) nested deeper than `DEEPEST`, or None. Raises yaml.YAMLError."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            return event.start_mark.line + 1 if event.start_mark else 1
    return None
