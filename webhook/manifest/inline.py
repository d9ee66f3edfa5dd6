"""YAML that stands in a field of an object."""

from typing import Final

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from webhook.manifest.nesting import DEEPEST

_NULL: Final = ("", "~", "null", "Null", "NULL")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def problem_of_map(text: str) -> str:
    """Return what is wrong with a text that should be a YAML map, or nothing.

    Events are read, and never composed: the composer in C does not survive deep nesting.
    """
    anchors, first, depth = set(), None, 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, CollectionStartEvent)
            depth -= isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                return "not YAML: nested too deeply"
            if isinstance(event, AliasEvent) and event.anchor not in anchors:
                return f"not YAML: there is no anchor {str(event.anchor)[:40]}"
            if isinstance(event, NodeEvent):
                anchors.add(event.anchor)
                first = first or event
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return f"not YAML: {line}{error.problem}"
    except (yaml.YAMLError, UnicodeEncodeError):
        return "not YAML: it has characters that YAML does not allow"
    empty = isinstance(first, ScalarEvent) and not first.style and first.value in _NULL
    is_map = first is None or empty or isinstance(first, MappingStartEvent)
    return "" if is_map else "write a YAML map, such as pip: [requests]"
