"""Print what Ray finds wrong in completed pods of every TPU slice. Exit code 1: something."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.lab.facts import wheel
from tests.lab.ray_slices.slices import Slices, listed, variables
from tests.lab.ray_slices.verdicts import faults
from webhook.api import names

PROGRAM: Final = Path(__file__).parent / "inside_ray.py"
READ: Final = (names.TPU_WORKER_ID, names.TPU_NAME, names.TPU_TOPOLOGY, names.TPU_ACCELERATOR_TYPE)
"""The variables that Ray reads."""
Json = dict[str, Any]

SHOWN: Final = 5
"""Faults of a group that are shown."""


class Checker:
    """Ray's code in a process of its own, which is asked about one group after another."""

    def __init__(self) -> None:
        command = [str(wheel.INTERPRETER), str(PROGRAM)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def verdicts(self, group: Slices, pods: Sequence[Json]) -> list[Json]:
        variable_maps = [
            {name: found for name, found in variables(pod).items() if name in READ} for pod in pods
        ]
        question = {
            "hosts": variable_maps,
            "chips": group.chips,
            "topology": group.topology,
            "generation": group.generation,
        }
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None
        assert writer is not None
        writer.write(json.dumps(question) + "\n")
        writer.flush()
        answer: list[Json] = json.loads(reader.readline())
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=60)


def main() -> int:
    said, checker = wheel.ask(), Checker()
    groups, hosts, divided, wrong = Counter[str](), Counter[str](), Counter[str](), 0
    for group in listed(said):
        pods = list(group.pods())
        verdicts = checker.verdicts(group, pods)
        found = list(faults(group, pods, verdicts))
        for text in found[:SHOWN]:
            print(f"{group}: {text}")
        wrong += bool(found)
        groups[group.accelerator] += 1
        hosts[group.accelerator] += len(pods)
        divided[group.accelerator] += verdicts[0]["subslices"] is not None
    checker.close()
    for accelerator, count in groups.items():
        print(
            f"{accelerator}: {count} topologies, {hosts[accelerator]} hosts; Ray divides "
            f"{divided[accelerator]} of them"
        )
    print(f"Ray {said['version']} finds fault with {wrong} of {groups.total()} groups")
    return int(wrong > 0 or not groups)


if __name__ == "__main__":
    sys.exit(main())
