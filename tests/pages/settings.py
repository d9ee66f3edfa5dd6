"""docs/settings.md, from the settings."""

from tests import ROOT
from tests.pages.markdown import folded
from webhook.config.configuration import known, schema
from webhook.config.sources import PROCESSES, describe_allowed_values, settings_of

PAGE = ROOT / "docs" / "settings.md"

_HEAD = """# Settings

<!-- Written by `make generate`; a test fails when this page is out of date. -->

Flags override environment variables, variables override the file of `--config` or
`RAY_WEBHOOK_CONFIG`, and the file overrides the defaults:

```yaml
apiVersion: config.ray-webhook.dev/v1alpha1
kind: Configuration
serving:
  drainSeconds: 10
log:
  admissions: denied
```

The flag of `serving.drainSeconds` is `--serving.drain-seconds`, its variable
`RAY_WEBHOOK_SERVING__DRAIN_SECONDS`; the other settings follow the same pattern. Write lists as
`a,b` and maps as `key=value,other=value`, or as JSON. A process has flags for the settings that it
reads; the file and the variables can contain all settings. `ray-webhook settings check FILE` checks
a file, and `ray-webhook settings schema` prints its JSON Schema for editors.

A process does not start with an unknown setting or an invalid value, and prints the allowed ones.
This includes every environment variable that starts with `RAY_WEBHOOK_`: set `enableServiceLinks:
false` in the pod if a Service has the name `ray-webhook`, because Kubernetes sets such variables
for it.
"""


def page() -> str:
    parts = [_HEAD]
    section = None
    settings_by_process = {process: settings_of(process) for process in PROCESSES}
    for name, node in known().items():
        before = name.rpartition(".")[0]
        if before != section:
            section = before
            described = schema()["properties"][section] if section else schema()
            parts.append(f"\n## {section or 'Without a section'}\n\n{described['description']}\n\n")
        facts = (
            _values(describe_allowed_values(node)),
            _default(node.get("default")),
            ", ".join(process for process, names in settings_by_process.items() if name in names),
        )
        parts.append(f"- `{name}` ({'; '.join(filter(None, facts))}): {node['description']}\n")
    return folded("".join(parts))


def _values(allowed: str) -> str:
    """Return allowed values without the forms of lists and maps, which the page gives once."""
    return allowed.partition(":")[0] if allowed.startswith("a ") else allowed


def _default(default: object) -> str:
    if default in (None, "", [], {}):
        return ""
    if isinstance(default, list):
        return f"default `{','.join(default)}`"
    return f"default `{str(default).lower() if isinstance(default, bool) else default}`"
