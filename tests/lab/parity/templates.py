"""`python -m tests.lab.parity.templates [--mutants N]`: the rules of pod templates
compared with the API server's own checks of the pods that KubeRay creates.

The program writes the table of agreement into the docs. Exit code 1: too many refused objects are
allowed, a valid object is denied, or one of the programs answers every input in the same way.
"""

import argparse
import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from tests import ROOT
from tests.e2e.go import CANNOT_BUILD, CannotBuildError
from tests.lab.parity.build import CACHE, HERE, KUBERNETES, build, build_api_server, published
from tests.lab.parity.mutants import EXAMPLES, Json, mutants
from tests.lab.parity.programs import ApiServer, Oracle
from tests.lab.parity.template_mutants import template_mutants
from tests.pages.markdown import folded
from webhook.api import names
from webhook.cli.files import read_files
from webhook.manifest.reader import Manifest
from webhook.validation.finding import DENY
from webhook.validation.pods.families import FAMILIES
from webhook.validation.rule_settings import RuleSettings, parse_kuberay
from webhook.validation.ruleset import check_file

CORPUS = HERE / "corpus"
PAGE = ROOT / "docs" / "contributing" / "pod-templates.md"
MISSED_MAX = 0.02
"""The share of refused objects that no rule may deny."""
SHOWN, SEED = 40, 1
FILED = 250_000
"""Characters of one object kept for each kind of disagreement."""


class Outcome(NamedTuple):
    """What the API server says of an object's pods, and the rules that deny the object."""

    refused: dict[str, list[str]]
    """By version of Kubernetes, why."""
    denied: frozenset[str]

    @property
    def runs(self) -> bool:
        return not all(self.refused.values())


class Tally(Struct):
    """The outcomes of many objects."""

    checked: int = 0
    idle: int = 0
    """Objects that never come to pods: the CRD or KubeRay refuses them."""
    runs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """What the API server says of the objects that are missed."""
    objects: dict[str, Json] = field(default_factory=dict)
    """One object of each disagreement."""

    def add(self, outcome: Outcome | None, value: Json) -> None:
        if outcome is None:
            self.idle += 1
            return
        self.checked += 1
        ours = outcome.denied & set(FAMILIES)
        for version, said in outcome.refused.items():
            self.refused[version] += bool(said)
            self.missed[version] += bool(said) and not outcome.denied
        if outcome.runs:
            self.runs += 1
            self.wrong.update(ours)
            for rule in ours:
                self.objects.setdefault(f"denied by {rule}", value)
        else:
            self.by_rule.update(ours)
        if any(outcome.refused.values()) and not outcome.denied:
            kind = _kind(next(filter(None, outcome.refused.values()))[0])
            self.kinds[kind] += 1
            self.objects.setdefault(f"missed: {kind}", value)

    def problems(self) -> list[str]:
        """Return why the rules do not agree with the API server, or why no one can tell."""
        found = [f"{rule} denies {number} objects that run" for rule, number in self.wrong.items()]
        for version in KUBERNETES:
            refused, missed = self.refused[version], self.missed[version]
            if not refused:
                found.append(f"Kubernetes {version} refuses nothing: its program is broken")
            elif missed > MISSED_MAX * refused:
                found.append(f"{missed} of {refused} objects pass that {version} refuses")
        if not self.runs:
            found.append("no object runs: one of the programs is broken")
        return found

    def page(self, count: int) -> str:
        columns = " | ".join(f"Kubernetes {version}" for version in KUBERNETES)
        introduction = f"""
KubeRay {published()[-1]} builds the pods of the examples, of its own samples, of the manifests in
`tests/lab/parity/corpus`, and of {count} broken copies of them (seed {SEED}). The API server's code
checks each pod, and the Job that submits a RayJob. An object is refused when one of its pods is.
"""
        running = f"""
{self.runs} objects run on one of them; rules of pod templates deny {sum(self.wrong.values())}.
{self.idle} objects never come to pods: the CRD or KubeRay refuses them.
"""
        lines = [
            "# Pod templates: agreement with the API server",
            "",
            "<!-- Written by `python -m tests.lab.parity.templates`; do not edit. -->",
            introduction,
            f"| | {columns} |",
            f"|---|{'---|' * len(KUBERNETES)}",
            self._row("objects with pods", dict.fromkeys(KUBERNETES, self.checked)),
            self._row("refused", self.refused),
            self._row("refused, and no rule denies the object", self.missed, share=True),
            running,
            "| rule | refused objects that it denies |",
            "|---|---|",
            *(f"| {rule} | {self.by_rule[rule]} |" for rule in FAMILIES),
            "",
        ]
        if self.kinds:
            lines += ["What passes, by what the API server says:", ""]
            lines += [f"- {number}: `{said}`" for said, number in self.kinds.most_common(SHOWN)]
            lines.append("")
        return folded("\n".join(lines))

    def _row(self, title: str, counted: dict[str, int], *, share: bool = False) -> str:
        cells = [str(counted[version]) for version in KUBERNETES]
        if share:
            parts = (counted[version] / max(self.refused[version], 1) for version in KUBERNETES)
            cells = [f"{cell} ({part:.2%})" for cell, part in zip(cells, parts, strict=True)]
        return f"| {title} | {' | '.join(cells)} |"


class Bench:
    """The programs of KubeRay and of each Kubernetes, while they run."""

    def __init__(self, oracle: Oracle, api_servers: dict[str, ApiServer]) -> None:
        self._oracle, self._api_servers = oracle, api_servers
        self._settings = RuleSettings(kuberay=parse_kuberay(published()[-1]))

    def check(self, value: Json) -> Outcome | None:
        """Return the outcome for an object; None for one that never comes to pods."""
        verdict = self._oracle.ask(value, make=True)
        if not verdict.stored or verdict.refusal or not verdict.children:
            return None
        refused = {
            version: [
                f"{child.part}: {said}"
                for child in verdict.children
                for said in api_server.ask(child.object)
            ]
            for version, api_server in self._api_servers.items()
        }
        found = check_file(value["kind"], value, self._settings)
        return Outcome(refused, frozenset(each.rule for each in found if each.level == DENY))


def corpus(samples: Path) -> list[Json]:
    found = [each for each in read_files([EXAMPLES, samples, CORPUS]) if isinstance(each, Manifest)]
    return [each.document for each in found if each.kind in names.RAY_KINDS]


def run(bench: Bench, given: list[Json], count: int) -> Tally:
    tally = Tally()
    broken = chain.from_iterable(
        zip(template_mutants(given, SEED), mutants(given, SEED), strict=True)
    )
    for value in chain(given, islice(broken, count)):
        tally.add(bench.check(value), value)
    return tally


def _kind(said: str) -> str:
    """Return what is said without what is particular to one object."""
    words = "".join("#" if each.isdigit() else each for each in said)
    return words[:160].partition("\n")[0].replace("`", "'")


ALL: Final = 60_000
"""Mutants of the page."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=ALL, help="%(default)s; fewer write no page")
    options = parser.parse_args()
    try:
        built = build(published()[-1])
        programs = {version: build_api_server(version) for version in KUBERNETES}
    except CannotBuildError as error:
        print(f"cannot build here: {error}", file=sys.stderr)
        return CANNOT_BUILD
    given = corpus(built.samples)
    started = time.monotonic()
    with ExitStack() as running:
        oracle = running.enter_context(Oracle(built))
        api_servers = {
            each: running.enter_context(ApiServer(path)) for each, path in programs.items()
        }
        tally = run(Bench(oracle, api_servers), given, options.mutants)
    took = time.monotonic() - started
    print(f"{len(given)} objects and {options.mutants} mutants in {took:.0f} s")
    page = tally.page(options.mutants)
    print(page)
    file = CACHE / "templates.jsonl"
    lines = ({"class": name, "object": each} for name, each in tally.objects.items())
    file.write_text("".join(json.dumps(line)[:FILED] + "\n" for line in lines))
    problems = tally.problems()
    for problem in problems:
        print(f"  {problem}")
    if not problems and options.mutants >= ALL:
        PAGE.write_text(page, encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
