"""Write docs/settings.md from the settings: `python -m tests.operation.settings_page`."""

from pathlib import Path

from tests.pages import folded
from webhook.config.configuration import known, schema
from webhook.config.sources import (
    PROCESSES,
    allowed,
    flag,
    settings_of,
    variable,
)

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

_HEAD = """# Settings

Generated from `webhook/config/configuration.py` by `python -m tests.operation.settings_page`; a
test fails when it is out of date.

Flags override environment variables, these override the file that `--config` or
`RAY_WEBHOOK_CONFIG` names, and the file overrides the defaults. The file is a component
configuration as those of Kubernetes are:

```yaml
apiVersion: config.ray-webhook.dev/v1alpha1
kind: Configuration
serving:
  drainSeconds: 10
log:
  admissions: denied
```

Each process has flags for the settings that it reads; file and variables may have those of all. In
flags and variables, lists are written `a,b` and maps `key=value,other=value`, or either as JSON.
`ray-webhook settings check FILE` checks a file as the processes do at their start, and
`ray-webhook settings schema` prints its JSON Schema, for editors.

A setting that does not exist, or a value that is not allowed, stops the start with the name and the
values that are allowed. That holds for every environment variable that begins with `RAY_WEBHOOK_`.
A Service called `ray-webhook` makes Kubernetes set some that do; `enableServiceLinks: false` in the
pod switches them off.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    section = None
    readers = {process: settings_of(process) for process in PROCESSES}
    for name, node in known().items():
        before = name.rpartition(".")[0]
        if before != section:
            section = before
            described = schema()["properties"][section] if section else schema()
            parts.append(
                f"\n## {section or 'Without a section'}\n\n{described['description']}\n\n"
                "| setting | values | default | processes | |\n|---|---|---|---|---|\n"
            )
        cells = (
            f"`{name}`<br>`{flag(name)}`<br>`{variable(name)}`",
            allowed(node).replace("|", "\\|"),
            _default(node.get("default")),
            ", ".join(process for process, names in readers.items() if name in names),
            node["description"],
        )
        parts.append(f"| {' | '.join(cells)} |\n")
    return folded("".join(parts))


def _default(default: object) -> str:
    if default in (None, "", [], {}):
        return ""
    if isinstance(default, list):
        return f"`{','.join(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    PAGE.write_text(page())
