"""Facts of Ray, from its wheel: printed by the interpreter of a scratch environment with Ray."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests import ROOT
from tests.lab.facts.fact import MISSING, Fact, value

INTERPRETER: Final = ROOT / ".cache" / "ray" / "bin" / "python"
QUESTIONS: Final = Path(__file__).parent / "inside_ray.py"

NAMES: Final = "webhook.api.names"
CONSTANTS: Final = {
    "TPU_WORKER_ID": "GKE_TPU_WORKER_ID_ENV_VAR",
    "TPU_NAME": "GKE_TPU_NAME_ENV_VAR",
    "TPU_TOPOLOGY": "GKE_TPU_TOPOLOGY_ENV_VAR",
    "TPU_ACCELERATOR_TYPE": "GKE_TPU_ACCELERATOR_TYPE_ENV_VAR",
    "NODE_TPU_TOPOLOGY": "GKE_TPU_TOPOLOGY_LABEL",
    "NODE_TPU_ACCELERATOR": "GKE_TPU_ACCELERATOR_LABEL",
    "LABEL_LEGACY_REPLICA_INDEX": "REPLICA_INDEX_KEY",
}
"""Ours in `webhook/api/names.py`, and theirs."""

MULTI_SLICE: Final = (
    "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT",
)  # fmt: skip
SERVE: Final = {
    "TOP": "ServeDeploySchema", "HTTP": "HTTPOptionsSchema", "GRPC": "gRPCOptionsSchema",
    "LOGGING": "LoggingConfig", "APPLICATION": "ServeApplicationSchema",
    "DEPLOYMENT": "DeploymentSchema", "ACTOR": "RayActorOptionsSchema",
    "AUTOSCALING": "AutoscalingConfig",
}  # fmt: skip
"""Our tables of keys in a Serve configuration, and Ray's classes."""
UNKNOWN_GENERATIONS: Final = frozenset({"v2", "v3"})
"""Ray's generations that GKE never had."""


def ask() -> dict[str, Any]:
    command = [str(INTERPRETER), str(QUESTIONS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def facts(said: dict[str, Any]) -> Iterator[Fact]:
    for ours, theirs in CONSTANTS.items():
        place = f"{NAMES}:{ours}"
        yield Fact(place, theirs, value(place), said["constants"].get(theirs, MISSING))
    for name in MULTI_SLICE:
        place = f"{NAMES}:{name}"
        there = value(place) if value(place) in said["megascale"] else MISSING
        yield Fact(place, "a variable of several slices", value(place), there)
    place = "webhook.mutation.tpu:COORDINATOR_PORT"
    yield Fact(
        place,
        "DEFAULT_MEGASCALE_PORT",
        str(value(place)),
        said["constants"]["DEFAULT_MEGASCALE_PORT"],
    )
    place = "webhook.validation.ray_start:KNOWN"
    yield _covers(place, "options of `ray start`", said["start_options"])
    keys = {
        value(f"webhook.validation.in_place_resize:{name}") for name in ("CPU", "MEMORY", "TIMEOUT")
    }
    yield Fact(
        "webhook.validation.in_place_resize:CPU",
        "keys of ray.io/ippr",
        keys,
        set(said["ippr_keys"]),
    )
    for ours, theirs in SERVE.items():
        place = f"webhook.validation.serve_config:{ours}"
        yield _covers(place, f"fields of {theirs}", said["serve_keys"][theirs])
    yield from _topologies(said)
    yield from _generations(said)


def _covers(place: str, what: str, theirs: list[str]) -> Fact:
    """Return the fact that ours has at least all of theirs."""
    return Fact(place, what, {*value(place)} & {*theirs}, {*theirs})


def _topologies(said: dict[str, Any]) -> Iterator[Fact]:
    place = "webhook.accelerators.slices:LISTED"
    ours = {
        _rays(name): {"x".join(map(str, each)) for each in found}
        for name, found in value(place).items()
    }
    theirs = {
        name: set(found)
        for name, found in said["topologies"].items()
        if name not in UNKNOWN_GENERATIONS
    }
    for name in sorted(ours | theirs):
        yield Fact(place, f"topologies of {name}", ours.get(name, set()), theirs.get(name, set()))


def _generations(said: dict[str, Any]) -> Iterator[Fact]:
    place = "webhook.accelerators.slices:GENERATIONS"
    ours = {label: (_rays(found.name), found.cores) for label, found in value(place).items()}
    newest = value("webhook.accelerators.slices:_V7X")
    for label, (generation, cores) in said["generations"].items():
        here = ours.get(
            label, (_rays(newest.name), newest.cores) if label.startswith("tpu7x") else MISSING
        )
        yield Fact(place, f"generation and cores of {label}", here, (_rays(generation), cores))


def _rays(generation: str) -> str:
    """A generation as Ray's tables spell it."""
    return generation.replace("tpu", "v", 1) if generation.startswith("tpu") else generation
