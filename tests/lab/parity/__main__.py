"""`python -m tests.lab.parity [--mutants N] [VERSION ...]`: exit code 1 for a
disagreement that is not in the table, 2 if a version cannot be built on this machine.
"""

import argparse
import json
import sys
import time
from collections import Counter
from itertools import chain, islice
from typing import Any

from tests.e2e.go import CANNOT_BUILD, CannotBuildError
from tests.lab.facts.kuberay import gates
from tests.lab.parity.build import CACHE, Built, available, build, versions
from tests.lab.parity.compare import Odd, compare, read_noise
from tests.lab.parity.mutants import mutants, seeds
from tests.lab.parity.programs import Oracle
from webhook.validation.rule_settings import DEFAULT_GATES, GATES, RuleSettings, parse_kuberay

SHOWN, SEED = 40, 1


def run(version: str, built: Built, count: int) -> bool:
    """Compare; return whether all disagreements are in the table. The cache gets one of each."""
    release = parse_kuberay(version)
    if built.release != release:
        print(f"KubeRay {version}: its CRD is taken for that of {built.release}")
        return False
    declared = gates(built.source)
    if release is None or declared != DEFAULT_GATES.get(release):
        print(f"KubeRay {version}: run `make kuberay`, the gates of its sources are {declared}")
        return False
    defaults = RuleSettings(kuberay=release)
    settings = RuleSettings(gates={name: defaults.enabled(name) for name in GATES}, kuberay=release)
    noise = read_noise(built.samples, settings)
    for line in noise:
        print(f"KubeRay {version}: {line}")
    given = seeds(built.samples)
    odd: Counter[Odd] = Counter()
    objects: dict[Odd, Any] = {}
    tally: Counter[str] = Counter()
    started = time.monotonic()
    with Oracle(built) as oracle:
        for value in chain(given, islice(mutants(given, SEED), count)):
            verdict = oracle.ask(value)
            tally["stored" if verdict.stored else "refused by the API server"] += 1
            tally["refused by KubeRay"] += verdict.stored and bool(verdict.refusal)
            found = compare(value, verdict, settings)
            tally["disagreements"] += bool(found)
            for each in found:
                if not each.explained:
                    odd[each] += 1
                    objects.setdefault(each, value)
    figures = ", ".join(f"{number} {name}" for name, number in sorted(tally.items()))
    took = f"{time.monotonic() - started:.0f} s"
    print(f"KubeRay {version}: {len(given)} objects and {count} mutants in {took}: {figures}")
    print(f"  not in the table: {sum(odd.values())}")
    for each, number in odd.most_common(SHOWN):
        print(f"  {number:5} {each.rule or 'KubeRay alone'}: {each.said[:300]} {each.path}")
    if odd:
        file = CACHE / f"disagreements-{version}.jsonl"
        file.write_text("".join(json.dumps(objects[each]) + "\n" for each, _ in odd.most_common()))
        print(f"  an object of each: {file}")
    return not odd and not noise


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold the rules against KubeRay's own code.")
    known = versions()
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=", ".join(known))
    parser.add_argument("--mutants", type=int, default=20_000)
    options = parser.parse_args()
    if unknown := set(options.versions) - set(known):
        parser.error(f"no program for {', '.join(unknown)}: there are {', '.join(known)}")
    codes = [_compared(version, options) for version in options.versions or available()]
    return next((code for code in (1, CANNOT_BUILD) if code in codes), 0)


def _compared(version: str, options: argparse.Namespace) -> int:
    """Compare with one version; return the exit code that this comparison alone would have."""
    try:
        return 0 if run(version, build(version), options.mutants) else 1
    except CannotBuildError as error:
        print(f"KubeRay {version}: cannot build here: {error}", file=sys.stderr)
        return CANNOT_BUILD


if __name__ == "__main__":
    sys.exit(main())
