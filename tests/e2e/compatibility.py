"""The page about compatibility: the pairs of versions, and their missing features."""

from collections.abc import Mapping
from typing import Final

from tests.e2e import needs
from tests.e2e.outcomes import Outcomes
from tests.e2e.versions import NEWEST, OLD, Pair
from tests.pages.markdown import folded

Results = Mapping[Pair, Outcomes | None]

HEAD: Final = f"""\
# Compatibility

<!-- Written by `make matrix`. -->

ray-webhook supports Kubernetes 1.30 and later, and KubeRay 1.1 and later. The end-to-end tests run
on these pairs of versions, with the operator of KubeRay and a Kubernetes control plane without
nodes. CI runs two of the pairs for each change: {NEWEST}, and {OLD}. Kueue, cert-manager and other
versions of kubectl are tested with the newest pair only. A test is not run on a pair that lacks the
feature that it tests.

"""


def document(results: Results, state: str) -> str:
    rows = "".join(
        f"| {pair.kuberay} | {pair.kubernetes} | {_verdict(found, state)} |\n"
        for pair, found in results.items()
    )
    table = f"| KubeRay | Kubernetes | tests |\n|---|---|---|\n{rows}"
    return folded(f"{HEAD}{table}\n## Differences between versions\n\n{_without(results)}")


def _verdict(found: Outcomes | None, state: str) -> str:
    if found is None or found.problem:
        return "not run"
    counts = [
        f"{number} {what.replace('_', ' ')}"
        for what in ("failed", "passed", "not_run")
        if (number := found.total(what))
    ]
    earlier = [] if found.state == state else ["with an earlier commit"]
    return ", ".join(counts + earlier)


def _without(results: Results) -> str:
    return "".join(
        f"- {_capital(need.reason(*lacking))}. {need.without}\n"
        for need in needs.ALL
        if need.without
        if (lacking := [pair for pair in results if not need.met(pair)])
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
