"""The chart's README.md, from its values."""

import json
import re
from collections.abc import Iterator
from typing import Final

import yaml

from tests.manifests.render import CHART

PAGE: Final = CHART / "README.md"

_HEAD: Final = """# Chart

Written from `values.yaml` by `make generate`; a test fails when this page is out of date.
`docs/install.md` walks through the installation; `manifests/README.md` gives the reason for each
choice. What has no value, such as the security context, is what every pod of the webhook works
with: nothing has to be weakened.

```
helm install ray-webhook manifests/chart --namespace ray-webhook --create-namespace \\
  --set image.registry=REGISTRY
```

| value | default | |
|---|---|---|
"""


def page() -> str:
    text = (CHART / "values.yaml").read_text()
    defaults = yaml.safe_load(text)
    rows = [f"| `{name}` | {_default(defaults, name)} | {said} |\n" for name, said in _values(text)]
    return _HEAD + "".join(rows)


def _values(text: str) -> Iterator[tuple[str, str]]:
    """Yield each value with the comment above it, by its path; those with values of their own only
    when one is said of them.
    """
    path: list[str] = []
    said: list[str] = []
    for line in text.splitlines():
        found = re.match(r"^( *)([A-Za-z_]+):(.*)$", line)
        if line.lstrip().startswith("#"):
            said.append(line.lstrip("# "))
        elif found:
            depth = len(found[1]) // 2
            path = [*path[:depth], found[2]]
            if said or found[3].strip():
                yield ".".join(path), " ".join(said)
            said = []
        else:
            said = []


def _default(values: object, name: str) -> str:
    for word in name.split("."):
        assert isinstance(values, dict)
        values = values[word]
    return "" if isinstance(values, dict) and values else f"`{json.dumps(values)}`"
