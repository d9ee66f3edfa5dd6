"""Print what Ray finds wrong in completed pods of every TPU slice. Exit code 1: something."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.harness.identities import identity_of
from tests.lab.facts import wheel
from tests.lab.program import Json, Program
from tests.lab.ray_slices.slices import Slices, listed, variables
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


def faults(group: Slices, pods: Sequence[Json], verdicts: Sequence[Json]) -> Iterator[str]:
    """What is wrong with the hosts of a group; nothing, if all is well."""
    if len(pods) != group.hosts * group.count:
        yield f"{len(pods)} pods instead of {group.hosts * group.count}"
    slices: dict[int, list[Json]] = {}
    for pod, verdict in zip(pods, verdicts, strict=True):
        held = identity_of(pod)
        if held is None:
            yield "a pod has no identity"
            continue
        slices.setdefault(held.replica, []).append(verdict)
        yield from (
            f"slice {held.replica}, host {held.host}: {text}"
            for text in _host(group, pod, held.host, verdict)
        )
    found = {replica: {verdict["name"] for verdict in hosts} for replica, hosts in slices.items()}
    if (
        any(len(each) != 1 for each in found.values())
        or len({name for each in found.values() for name in each}) != group.count
    ):
        yield f"the slices are called {found}"
    for replica, hosts in slices.items():
        yield from (f"slice {replica}: {text}" for text in _subslices(group.topology, hosts))


def _host(group: Slices, pod: Json, host: int, verdict: Json) -> Iterator[str]:
    head = f"TPU-{verdict['expected_pod_type']}-head"
    wanted = {
        "worker": host,
        "topology": group.topology,
        "pod_type": verdict["expected_pod_type"],
        "valid": True,
        "workers": group.hosts,
        "resources": {verdict["name"]: 1, **({head: 1} if host == 0 else {})},
        "labels": {
            "ray.io/tpu-slice-name": verdict["name"],
            "ray.io/tpu-worker-id": str(host),
            "ray.io/tpu-topology": group.topology,
            "ray.io/tpu-pod-type": verdict["expected_pod_type"],
        },
        "metadata_asked": [],
    }
    for name, value in wanted.items():
        if verdict[name] != value:
            yield f"{name} is {verdict[name]} instead of {value}"
    if group.hosts > 1:
        addresses = variables(pod).get(names.TPU_WORKER_HOSTNAMES, "").split(",")
        own = f"{pod['spec'].get('hostname')}.{pod['spec'].get('subdomain')}"
        if len(addresses) != group.hosts or not addresses[host].startswith(own):
            yield f"{own} is not number {host} of {len(addresses)} host names"


def _subslices(topology: str, hosts: Sequence[Json]) -> Iterator[str]:
    """Each sub-slice of a shape that divides the topology has as many hosts."""
    labels = [verdict["subslices"] or {} for verdict in hosts]
    for label in sorted(
        {label for each in labels for label in each if _divides(label.rpartition("-")[2], topology)}
    ):
        sizes = Counter(each.get(label) for each in labels)
        if len(set(sizes.values())) != 1 or None in sizes:
            yield f"{label} has {dict(sizes)} hosts"


def _divides(shape: str, topology: str) -> bool:
    return all(
        int(whole) % int(part) == 0
        for whole, part in zip(topology.split("x"), shape.split("x"), strict=True)
    )


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
