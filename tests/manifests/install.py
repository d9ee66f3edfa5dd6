"""The chart as manifests for `kubectl apply`, without what only Helm reads."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.e2e import build
from tests.manifests.render import template

FILE: Final = ROOT / "manifests" / "install.yaml"
_NAMESPACE: Final = """\
# The default chart, for `kubectl apply -k manifests`: written by `make generate`.
apiVersion: v1
kind: Namespace
metadata:
  name: ray-webhook
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""
_HELM_ONLY: Final = re.compile(
    r"^( *helm\.sh/chart: .*| *app\.kubernetes\.io/managed-by: Helm|# Source: .*)\n", re.MULTILINE
)


def text() -> str:
    """Return the namespace of the installation and the objects of the chart, which Helm renders."""
    return _NAMESPACE + _HELM_ONLY.sub("", template("--skip-tests").stdout)


def files() -> Mapping[Path, str]:
    """Return the file with its content, or none where Helm is not built."""
    if build.binary(build.HELM).exists():
        return {FILE: text()}
    sys.stderr.write("manifests/install.yaml needs helm: run `make tools` first\n")
    return {}
