"""Broken copies of real Ray objects: the same ones for the same seed."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests import ROOT
from tests.webhook.validation.samples import assigned, samples
from webhook.api import names
from webhook.cli.files import read_files
from webhook.manifest.reader import Manifest

Json = dict[str, Any]
Way = tuple[str | int, ...]

LARGE = 100_000
"""Characters from which on an object is left as it is: mutants of it take most of the time."""
EXAMPLES = ROOT / "examples"
NUMBERS = (-1, 0, 1, 2, 50, 100, 101, 4096, 65536, 2**31 - 1, 2**31, 3_000_000_000, 10**10)
TEXTS = (
    "", "x", "true", "false", "1", "-1", "v1", "v2", "4Gi", "four", "1e1.5", "1e100", "1e-00003",
    "Always", "Never", "5m", "token", "a" * 64, "Upper", "under_score", "2.46.0", "2.56.0",
    "None", "NewCluster", "SidecarMode", "InteractiveMode", "DeleteCluster", "0 3 * * *",
    "kueue.x-k8s.io/multikueue",
)  # fmt: skip


def seeds(kuberay_samples: Path) -> list[Json]:
    """Return the examples, KubeRay's samples, and the examples of the rules, good and bad."""
    files = read_files([EXAMPLES, kuberay_samples])
    manifests = [item for item in files if isinstance(item, Manifest)]
    found: list[Json] = [item.document for item in manifests if item.kind in names.RAY_KINDS]
    for sample in samples().values():
        found += [assigned(sample.passes), assigned(sample.fails)]
    return found


def mutants(given: list[Json], seed: int) -> Iterator[Json]:
    random = Random(seed)  # noqa: S311 - the same ones each time
    small = [value for value in given if len(json.dumps(value)) < LARGE]
    by_kind: dict[str, list[Json]] = {}
    for value in small:
        by_kind.setdefault(value["kind"], []).append(value)
    while True:
        value = copy.deepcopy(random.choice(small))
        for _ in range(random.choice((1, 1, 2, 3))):
            _mutate(value, random, by_kind[value["kind"]])
        yield value


def _mutate(value: Json, random: Random, others: list[Json]) -> None:
    ways = _ways(value)
    if not ways:
        return
    way = random.choice(ways)
    holder, name = at(value, way[:-1]), way[-1]
    draw = random.random()
    if draw < 0.25:
        del holder[name]
    elif draw < 0.65:
        holder[name] = _other(holder[name], random)
    elif draw < 0.9:
        _graft(value, random.choice(others), random)
    else:
        holder[name] = copy.deepcopy(at(value, random.choice(ways)))


def _ways(value: Json) -> list[Way]:
    return [way for way, _ in walk(value) if way and way[0] in ("metadata", "spec")]


def walk(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:  # noqa: ANN401 - JSON
    yield way, value
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield from walk(item, (*way, key))


def at(value: Any, way: Way) -> Any:  # noqa: ANN401 - JSON
    for token in way:
        value = value[token]
    return value


def _other(value: Any, random: Random) -> Any:  # noqa: ANN401 - JSON
    draw = random.random()
    if draw < 0.1:
        return random.choice((None, {}, [], "", 0, False, 1.5, [None], {"a": None}))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice(NUMBERS)
    if isinstance(value, str):
        return random.choice(TEXTS)
    if isinstance(value, list) and value:
        return [*value, copy.deepcopy(random.choice(value))] if draw < 0.6 else []
    return {} if isinstance(value, dict) else []


def _graft(value: Json, other: Json, random: Random) -> None:
    way = random.choice(_ways(other))
    item = copy.deepcopy(at(other, way))
    for depth in range(len(way) - 1, 0, -1):
        try:
            holder = at(value, way[:depth])
        except (KeyError, IndexError, TypeError):
            continue
        key = way[depth]
        if isinstance(holder, dict) and isinstance(key, str):
            holder[key] = copy.deepcopy(at(other, way[: depth + 1]))
        elif isinstance(holder, list):
            holder.append(item)
        return
