"""The page about compatibility: the pairs of versions, and their missing features."""

from typing import Final

from tests import ROOT
from tests.e2e import needs
from tests.e2e.versions import MATRIX, NEWEST, OLD, UNPUBLISHED, Pair
from tests.pages.markdown import folded

PAGE: Final = ROOT / "docs" / "compatibility.md"

_HEAD: Final = f"""\
# Compatibility

<!-- Written by `make generate`. -->

ray-webhook supports Kubernetes 1.30 and later, and KubeRay 1.1 and later. The end-to-end tests run
on these pairs of versions, with the operator of KubeRay and a Kubernetes control plane without
nodes. Kueue, cert-manager and other versions of kubectl are tested with {NEWEST} only. A test is
not run on a pair that lacks the feature that it tests.

| KubeRay | Kubernetes | tested |
|---|---|---|
"""


def page() -> str:
    rows = "".join(f"| {each.kuberay} | {each.kubernetes} | {_when(each)} |\n" for each in MATRIX)
    return folded(f"{_HEAD}{rows}\n## Differences between versions\n\n{_without()}")


def _when(pair: Pair) -> str:
    if pair == UNPUBLISHED:
        return "not in CI: its module is not published"
    return "with each change" if pair in (NEWEST, OLD) else "each night"


def _without() -> str:
    """Return what pairs lack, and what is different for their users."""
    return "".join(
        f"- {need.reason(*lacking).replace('no ', 'No ', 1)}. {need.without}\n"
        for need in needs.ALL
        if need.without
        if (lacking := [pair for pair in MATRIX if not need.met(pair)])
    )
