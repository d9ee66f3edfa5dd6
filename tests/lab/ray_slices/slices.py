"""TPU slices of every generation and topology of Ray, with their completed pods."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import yaml

from tests import ROOT
from tests.builders import Webhook, manifest
from tests.lab.program import Json
from webhook.api import names
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster

EXAMPLE: Final = ROOT / "examples" / "tpu-three-replicas.yaml"
FEW: Final = 64
"""Hosts up to which a group has two slices, which must not be taken for one another."""


@dataclass(frozen=True)
class Slices:
    """A worker group: its accelerator as GKE labels it, and as Ray's tables name it."""

    generation: str
    accelerator: str
    topology: str
    chips: int
    """Of a host."""
    parent: str = ""
    """The topology that the nodes have of which these are sub-slices."""

    def __str__(self) -> str:
        whole = f" of {self.parent}" if self.parent else ""
        return f"{self.accelerator} {self.topology}{whole} with {self.chips} chips a host"

    @property
    def hosts(self) -> int:
        return prod(sizes(self.topology)) // self.chips

    @property
    def count(self) -> int:
        return 2 if self.hosts <= FEW else 1

    def cluster(self) -> Json:
        """A RayCluster with nothing but this group."""
        document: Json = yaml.safe_load(EXAMPLE.read_text())
        (group,) = document["spec"]["workerGroupSpecs"]
        group |= dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), self.count)
        group["numOfHosts"] = self.hosts
        spec = group["template"]["spec"]
        spec["nodeSelector"] = {
            names.NODE_TPU_ACCELERATOR: self.accelerator,
            names.NODE_TPU_TOPOLOGY: self.parent or self.topology,
        }
        if self.parent:
            annotations = {names.ANNOTATION_SLICE_TOPOLOGY: self.topology}
            group["template"]["metadata"] = {"annotations": annotations}
        for amounts in spec["containers"][0]["resources"].values():
            amounts[names.RESOURCE_TPU] = str(self.chips)
        return document

    def pods(self) -> Iterator[Json]:
        document = self.cluster()
        webhook = Webhook(document)
        _, *workers = expand(document, as_cluster(manifest(document)))
        for worker in workers:
            yield webhook.admit(worker).pod


def listed(said: Json) -> Iterator[Slices]:
    """Every generation and topology of `said`, for each label of GKE, with the hosts that Ray takes
    for granted: as a slice of its own, and as a part of the next larger one, with its hosts.
    """
    for accelerator, (generation, _) in said["generations"].items():
        known: dict[str, int] = said["chips_per_host"][generation]
        for topology, chips in known.items():
            yield Slices(generation, accelerator, topology, chips)
            if parent := _next_larger(topology, known):
                yield Slices(generation, accelerator, topology, known[parent], parent)


def _next_larger(topology: str, known: Mapping[str, int]) -> str:
    """The smallest topology that this one is a part of, and whose hosts it has as a whole."""
    part = sizes(topology)
    larger = [
        each
        for each, chips in known.items()
        if each != topology
        and len(sizes(each)) == len(part)
        and all(size <= most for size, most in zip(part, sizes(each), strict=True))
        and prod(part) % chips == 0
    ]
    return min(larger, key=lambda each: prod(sizes(each)), default="")


def sizes(topology: str) -> list[int]:
    return [int(size) for size in topology.split("x")]


def variables(pod: Json) -> dict[str, str]:
    """The variables of the Ray container, but for those that take their value elsewhere."""
    return {
        each["name"]: each["value"]
        for each in pod["spec"]["containers"][0]["env"]
        if "value" in each
    }
