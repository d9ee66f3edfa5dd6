"""Print what Ray finds wrong in completed pods of every TPU slice. Exit code 1: something."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.lab.facts import wheel
from tests.lab.program import Json, Program
from tests.lab.ray_slices.slices import Slices, listed, variables
from tests.lab.ray_slices.verdicts import faults
from webhook.api import names

PROGRAM: Final = Path(__file__).parent / "inside_ray.py"
READ: Final = (names.TPU_WORKER_ID, names.TPU_NAME, names.TPU_TOPOLOGY, names.TPU_ACCELERATOR_TYPE)
"""The variables that Ray reads."""

SHOWN: Final = 5
"""Faults of a group that are shown."""


def verdicts(program: Program, group: Slices, pods: Sequence[Json]) -> list[Json]:
    """Return what Ray says of the hosts of a group, in a process of its own."""
    variable_maps = [
        {name: found for name, found in variables(pod).items() if name in READ} for pod in pods
    ]
    question = {
        "hosts": variable_maps,
        "chips": group.chips,
        "topology": group.topology,
        "generation": group.generation,
    }
    return program.answer(question, list[Json])


def main() -> int:
    said = wheel.ask()
    groups, hosts, divided, wrong = Counter[str](), Counter[str](), Counter[str](), 0
    with Program(wheel.INTERPRETER, PROGRAM) as program:
        for group in listed(said):
            pods = list(group.pods())
            answers = verdicts(program, group, pods)
            found = list(faults(group, pods, answers))
            for text in found[:SHOWN]:
                print(f"{group}: {text}")
            wrong += bool(found)
            groups[group.accelerator] += 1
            hosts[group.accelerator] += len(pods)
            divided[group.accelerator] += answers[0]["subslices"] is not None
    for accelerator, count in groups.items():
        print(
            f"{accelerator}: {count} topologies, {hosts[accelerator]} hosts; Ray divides "
            f"{divided[accelerator]} of them"
        )
    print(f"Ray {said['version']} finds fault with {wrong} of {groups.total()} groups")
    return int(wrong > 0 or not groups)


if __name__ == "__main__":
    sys.exit(main())
