"""The pages about compatibility: for users the pairs and their missing features; for contributors a
column for each pair and a row for each test.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from tests.e2e import needs
from tests.e2e.outcomes import Outcome, Outcomes
from tests.e2e.versions import NEWEST, OLD, Pair
from tests.pages import folded

Results = Mapping[Pair, Outcomes | None]

HEAD: Final = f"""\
# Compatibility

<!-- Written by `make matrix`. -->

ray-webhook supports Kubernetes 1.30 and later, and KubeRay 1.1 and later. The end-to-end tests run
on these pairs of versions, with the operator of KubeRay and a Kubernetes control plane without
nodes. CI runs two of the pairs for each change: {NEWEST}, and {OLD}. Kueue, cert-manager and other
versions of kubectl are tested with the newest pair only.

"""

RECORD: Final = """\
# Results of the end-to-end tests

<!-- Written by `make matrix`. -->

"""

LEGEND: Final = """\
KubeRay stands above Kubernetes. A number says how many cases of a story passed; where there is
none, one did. No result is no success: the story did not run on this pair, or came later than the
pair ran.
"""


def document(results: Results, state: str) -> str:
    """The page for users. `state` names the present code."""
    rows = "".join(
        f"| {pair.kuberay} | {pair.kubernetes} | {_verdict(found, state)} |\n"
        for pair, found in results.items()
    )
    table = f"| KubeRay | Kubernetes | tests |\n|---|---|---|\n{rows}"
    return folded(f"{HEAD}{table}\n## Differences between versions\n\n{_without(results)}")


def record(results: Results, state: str) -> str:
    """The page for contributors. `state` names the present code; results of other code say so."""
    ran = {pair: found for pair, found in results.items() if found and not found.trouble}
    parts = [RECORD, _pairs(results, state)]
    if failures := _failures(ran):
        parts += ["\n## Failures\n\n", failures]
    return folded("".join([*parts, "\n## Stories\n\n", _stories(ran)]))


def _verdict(found: Outcomes | None, state: str) -> str:
    if found is None or found.trouble:
        return "not run"
    failed = found.total("failed")
    code = "" if found.state == state else ", with an earlier commit"
    return f"{f'{failed} failed' if failed else 'passed'}{code}"


def _pairs(results: Results, state: str) -> str:
    rows = [
        "| KubeRay | Kubernetes | passed | failed | not run | when |",
        "|---|---|---|---|---|---|",
    ]
    for pair, found in results.items():
        rows.append(f"| {pair.kuberay} | {pair.kubernetes} | {_summary(found, state)} |")
    return "\n".join(rows) + "\n"


def _summary(found: Outcomes | None, state: str) -> str:
    if found is None:
        return "- | - | all: not run here | -"
    if found.trouble:
        return f"- | - | all: {found.trouble} | -"
    counts = [str(found.total(what)) for what in ("passed", "failed", "not_run")]
    earlier = "" if found.state == state else ", with earlier code"
    return " | ".join([*counts, f"{found.day}{earlier}"])


def _without(results: Results) -> str:
    """Return what pairs lack, and what is different for their users."""
    return "".join(
        f"- {_capital(need.reason(*lacking))}. {need.without}\n"
        for need in needs.ALL
        if need.without
        if (lacking := [pair for pair in results if not need.met(pair)])
    )


def _failures(ran: Mapping[Pair, Outcomes]) -> str:
    return "".join(
        f"- {pair}: {_sentence(name)}: `{outcome.reasons[0][:200]}`\n"
        for pair, found in ran.items()
        for name, outcome in found.stories.items()
        if outcome.failed
    )


def _stories(ran: Mapping[Pair, Outcomes]) -> str:
    """The table, and why stories did not run."""
    if not ran:
        return "No pair was run here.\n"
    names = sorted({name for found in ran.values() for name in found.stories})
    reasons: dict[str, int] = {}
    heads = [f"{pair.kuberay}<br>{pair.kubernetes}" for pair in ran]
    lines = [
        LEGEND,
        f"| story | {' | '.join(heads)} |",
        "|---|" + "---|" * len(heads),
    ]
    for module, group in groupby(names, lambda name: name.rpartition(".")[0]):
        lines.append(f"| **{_module(module)}** |" + " |" * len(heads))
        for name in group:
            cells = [_cell(found.stories.get(name), reasons) for found in ran.values()]
            lines.append(f"| {_sentence(name)} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. Not run: {reason}." for reason, number in reasons.items())]
    return "\n".join(lines) + "\n"


def _cell(outcome: Outcome | None, reasons: dict[str, int]) -> str:
    """One story on one pair; the reasons are numbered as they come."""
    if outcome is None:
        return "no result"
    cases = outcome.passed + outcome.failed + outcome.not_run
    parts = []
    if outcome.passed:
        parts.append("passed" if cases == 1 else f"passed {outcome.passed}")
    if outcome.failed:
        parts.append(f"**failed {outcome.failed}**")
    if outcome.not_run:
        numbers = [
            reasons.setdefault(reason, len(reasons) + 1)
            for reason in outcome.reasons
            if not outcome.failed
        ]
        why = f" ({', '.join(map(str, numbers))})" if numbers else ""
        parts.append(f"not run{why}" if cases == 1 else f"not run {outcome.not_run}{why}")
    return ", ".join(parts)


def _sentence(name: str) -> str:
    """The name of a test as the sentence it is."""
    return _capital(name.rpartition(".")[2].removeprefix("test_").replace("_", " "))


def _module(module: str) -> str:
    return (
        module.removeprefix("tests.e2e.").replace("test_", "").replace("_", " ").replace(".", ": ")
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
