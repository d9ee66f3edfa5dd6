"""Pin a version of KubeRay or Kubernetes: `python -m tests.e2e.pin kubernetes 1.36.3` writes go.mod
and go.sum under tools/.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Final

from tests.e2e import build, go
from tests.e2e.versions import PINS

KUBERNETES: Final = "k8s.io/kubernetes"
MODULES: Final = {"kuberay": build.KUBERAY_MODULE, "kubernetes": KUBERNETES}
STAGING: Final = re.compile(
    r"^\s+(k8s\.io/[a-z0-9-]+) (?:v0\.0\.0|=> \./staging/.*)$", re.MULTILINE
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", choices=MODULES)
    parser.add_argument("version", help="such as 1.36.3")
    options = parser.parse_args()
    pin(options.module, options.version)
    return 0


def pin(name: str, version: str) -> None:
    folder = PINS / name / version
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.sum").unlink(missing_ok=True)
    module = MODULES[name]
    names, packages = zip(
        *((tool.name, tool.package) for tool in build.TOOLS if tool.module == name), strict=True
    )
    lines = [
        f"// Builds {', '.join(names)} for tests/e2e (see tests/e2e/build.py).",
        f"module ray-webhook.test/e2e/tools/{name}\n\ngo 1.26.0\n\nrequire {module} v{version}",
    ]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    if name == "kubernetes":
        lines.append(
            replacements(Path(_downloaded(folder, f"{module}@v{version}")).read_text(), version)
        )
        (folder / "go.mod").write_text("\n".join(lines) + "\n")
    go.run(folder, "get", "-tool", *(f"{package}@v{version}" for package in packages))
    go.run(folder, "list", "-deps", *packages)  # fails if a sum is missing


def replacements(text: str, version: str) -> str:
    """Published modules of a release in place of those that Kubernetes requires as v0.0.0."""
    staged = sorted(set(STAGING.findall(text)))
    published = f"v0.{version.split('.', 1)[1]}"
    return "\n".join(["\nreplace (", *(f"\t{each} => {each} {published}" for each in staged), ")"])


def _downloaded(folder: Path, module: str) -> str:
    found: str = json.loads(go.run(folder, "mod", "download", "-json", module))["GoMod"]
    return found


if __name__ == "__main__":
    sys.exit(main())
