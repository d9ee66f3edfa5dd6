"""`python -m tests.parity [--mutants N] [--seed N] [VERSION ...]`: exit code 1 for a disagreement that the table lacks."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, islice
from typing import Any

from tests.parity.build import (
    CRDS_VARIABLE,
    UNPUBLISHED,
    Built,
    CannotBuildError,
    build,
    unpublished,
    versions,
)
from tests.parity.compare import Odd, compare, compare_schema
from tests.parity.mutants import mutants, seeds
from tests.parity.oracle import Oracle, Verdict
from webhook.validation.settings import RuleSettings, parse_kuberay

SHOWN = 40
CANNOT_BUILD = 2


Compare = Callable[[Any, Verdict, RuleSettings], list[Odd]]


def run(version: str, built: Built, against: Compare, count: int, seed: int) -> bool:
    """Compare on all seeds and `count` mutants; return whether every disagreement is in the table."""
    settings = RuleSettings(kuberay=parse_kuberay(version))
    given = seeds(built.samples)
    odd: Counter[Odd] = Counter()
    tally: Counter[str] = Counter()
    started = time.monotonic()
    with Oracle(built) as oracle:
        for value in chain(given, islice(mutants(given, seed), count)):
            verdict = oracle.ask(value, {})
            tally["stored" if verdict.stored else "refused by the API server"] += 1
            tally["refused by KubeRay"] += verdict.stored and bool(verdict.refusal)
            found = against(value, verdict, settings)
            tally["disagreements"] += bool(found)
            odd.update(each for each in found if not each.explained)
    figures = ", ".join(f"{number} {name}" for name, number in sorted(tally.items()))
    unknown = sum(odd.values())
    print(f"KubeRay {version}: {len(given)} objects and {count} mutants in {time.monotonic() - started:.0f} s: {figures}")
    print(f"  not in the table: {unknown}")
    for each, number in odd.most_common(SHOWN):
        print(f"  {number:5} {each.rule or 'KubeRay alone'}: {each.said[:300]} {each.path}")
    return not odd


def main() -> int:
    """Compare with every version that is named, or with all."""
    parser = argparse.ArgumentParser(description="Hold the rules against KubeRay's own code.")
    parser.add_argument("versions", nargs="*", default=versions(), metavar="VERSION")
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        agreed = [run(version, build(version), compare, options.mutants, options.seed) for version in options.versions]
        newest = unpublished(build(versions()[-1]))
    except CannotBuildError as error:
        print(f"cannot build here: {error}", file=sys.stderr)
        return CANNOT_BUILD
    if newest is None:
        print(f"KubeRay {UNPUBLISHED}: not run: {CRDS_VARIABLE} names no folder with its CRDs")
    else:
        agreed.append(run(UNPUBLISHED, newest, compare_schema, options.mutants, options.seed))
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
