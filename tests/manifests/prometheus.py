"""Prometheus and promtool from Debian packages, unpacked by `make prometheus`."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.manifests.render import ROOT

_UNPACKED: Final = ROOT / ".cache" / "prometheus" / "usr" / "bin"


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`. Fails the test where there is none."""
    unpacked, installed = _UNPACKED / name, shutil.which(name)
    if unpacked.exists():
        return unpacked
    if installed:
        return Path(installed)
    text = f"{name} is not there: run `make prometheus`, which unpacks Debian's package"
    pytest.fail(text)
