"""Writes docs/settings.md from the settings: `python -m tests.operation.settings_page`."""

from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.pages import folded
from webhook.settings import Settings, known, variable

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

_HEAD = """# Settings

Generated from `webhook/settings.py` by `python -m tests.operation.settings_page`; a test fails when
it is out of date.

Flags override environment variables, these override the file that `--file` or `RAY_WEBHOOK_FILE`
names, and the file overrides the defaults. The file is YAML, with a section for each word before a
dot:

```yaml
apiVersion: config.admission.ray.io/v1alpha1
kind: Settings
serving:
  drain_seconds: 10
log:
  admissions: denied
```

In variables, lists are written `a,b` and maps `key=value,other=value`; JSON is taken too.
`ray-webhook settings check FILE` tells whether a file can be used, as the processes read it at
their start; `ray-webhook settings schema` prints its JSON Schema, for editors.

A setting that does not exist, or a value that it cannot have, stops the start with its name and
what is allowed. That holds for every environment variable that begins with `RAY_WEBHOOK_`; a
Service called `ray-webhook` makes Kubernetes set some that do, which `enableServiceLinks: false` in
the pod switches off.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    section = None
    for name, field in known().items():
        before = name.rpartition(".")[0]
        if before != section:
            section = before
            parts.append(f"\n## {section or 'All together'}\n\n{_purpose(section)}")
            parts.append(
                "| setting | flag | environment variable | default | |\n|---|---|---|---|---|\n"
            )
        cells = (
            f"`{name}`",
            f"`--{name.replace('_', '-')}`",
            f"`{variable(name)}`",
            _default(field),
            _meaning(field),
        )
        parts.append(f"| {' | '.join(cells)} |\n")
    return folded("".join(parts))


def _purpose(section: str) -> str:
    model: type[BaseModel] = Settings
    for word in filter(None, section.split(".")):
        found = model.model_fields[word].annotation
        assert isinstance(found, type)
        model = found
    return f"{' '.join((model.__doc__ or '').split())}\n\n"


def _default(field: FieldInfo) -> str:
    default = field.get_default()
    if default in (None, []):
        return ""
    if isinstance(default, list):
        return f"`{','.join(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _meaning(field: FieldInfo) -> str:
    text = " ".join((field.description or "").split())
    if get_origin(field.annotation) is Literal:
        text += f" One of {', '.join(f'`{value}`' for value in get_args(field.annotation))}."
    bounds = [str(item) for item in field.metadata]
    return f"{text} {_bounds(bounds)}".strip()


def _bounds(metadata: list[str]) -> str:
    """Return the bounds of a number, which pydantic keeps as `Ge(ge=0)`."""
    words = {"Ge(ge=": "at least ", "Gt(gt=": "more than ", "Le(le=": "at most "}
    said = [words[text[:6]] + text[6:-1] for text in metadata if text[:6] in words]
    return f"({', '.join(said)})" if said else ""


if __name__ == "__main__":
    PAGE.write_text(page())
