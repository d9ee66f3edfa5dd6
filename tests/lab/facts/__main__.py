"""Print the copied facts that differ from KubeRay and Ray. Exit code 1: some do."""

import os
import sys
from collections.abc import Iterable

from tests.e2e import build
from tests.e2e.versions import KUBERAY_VARIABLE, NEWEST
from tests.lab.facts import kuberay, wheel
from tests.lab.facts.fact import Fact


def main() -> int:
    os.environ[KUBERAY_VARIABLE] = NEWEST.kuberay
    differing = report(f"KubeRay {NEWEST.kuberay}", kuberay.facts(build.module_folder()))
    said = wheel.ask()
    differing += report(f"Ray {said['version']}", wheel.facts(said))
    return int(differing > 0)


def report(source: str, facts: Iterable[Fact]) -> int:
    found = list(facts)
    differing = [fact for fact in found if fact.differs and not fact.ahead]
    ahead = [fact for fact in found if fact.differs and fact.ahead]
    print(
        f"{source}: {len(found) - len(differing) - len(ahead)} facts agree, {len(differing)} differ"
    )
    for fact in differing:
        print(f"  differs: {fact}")
    for fact in ahead:
        print(f"  not compared, as {fact.ahead}: {fact}")
    return len(differing)


if __name__ == "__main__":
    sys.exit(main())
