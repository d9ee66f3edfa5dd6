"""YAML in a string field of an object, as Go parses it."""

from typing import Any, Final

import yaml
from msgspec import Struct
from yaml.events import DocumentStartEvent
from yaml.nodes import MappingNode

from webhook.manifest.yaml_values import (
    Converter,
    ManifestError,
    first_node,
    is_null,
    problem_of,
)

_VERSION: Final = (1, 1)


class Inline(Struct, frozen=True, eq=False):
    """A text that should be a YAML map: its value, or an error. `twice` is a duplicate key, of
    which Go uses the last value. A text that gives two values one anchor has neither: Go takes it,
    and PyYAML does not.
    """

    value: dict[str, Any] | None
    problem: str = ""
    twice: str = ""


def read_map(text: str, example: str) -> Inline:
    """Return the YAML map in the first document of a text, the only one that Go reads."""
    try:
        _check_version(text)
        node = first_node(text)
        if node is None or is_null(node):
            return Inline({})
        if isinstance(node, MappingNode):
            converter = Converter("")
            value = converter.value(node)
            twice = next((duplicate.problem for duplicate in converter.duplicates), "")
            return Inline(value, twice=twice)
    except (ManifestError, yaml.YAMLError, UnicodeEncodeError) as error:
        return Inline(None, _problem(text, error))
    return Inline(None, f"write a YAML map, such as {example}")


def _problem(text: str, error: Exception) -> str:
    if isinstance(error, ManifestError):
        line, problem = error.line, error.problem
    elif isinstance(error, yaml.YAMLError):
        if "duplicate anchor" in str(getattr(error, "context", "")):
            return ""
        line, problem = problem_of(text, error)
    else:
        line, problem = 0, "it has characters that YAML does not allow"
    return f"not YAML: {f'line {line}: ' if line else ''}{problem}"


def _check_version(text: str) -> None:
    """Raise ManifestError for a directive with another version of YAML."""
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    start = next((event for event in events if isinstance(event, DocumentStartEvent)), None)
    if start is not None and start.version not in (None, _VERSION):
        problem = "write %YAML 1.1, which is the only version that Go reads, or leave it out"
        raise ManifestError("", 1, problem)
