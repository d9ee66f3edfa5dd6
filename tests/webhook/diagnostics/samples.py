"""The examples of the diagnoses: short changes to a scene without problems."""

from functools import cache
from pathlib import Path

import yaml
from msgspec import Struct, field, json

from tests.harness.scenes import Object, Scene, merged

FILE = Path(__file__).with_name("examples.yaml")


class Sample(Struct, forbid_unknown_fields=True):
    """One example: `copies` of pods by their names, overlays by pod, `told` variables, and `also`
    diagnoses that follow from it. One that is not `listed` is only tested.
    """

    cluster: Object = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    copies: dict[str, str] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    env: dict[str, dict[str, str | None]] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    namespaces: list[Object] = field(default_factory=list)
    services: list[str] | None = None
    events: list[Object] = field(default_factory=list)
    pod_groups: list[Object] = field(default_factory=list)
    webhooks: list[Object] = field(default_factory=list)
    ray_jobs: list[Object] = field(default_factory=list)
    ray_services: list[Object] = field(default_factory=list)
    workloads: list[Object] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    listed: bool = True

    def scene(self) -> Scene:
        scene = Scene()
        scene.cluster = merged(scene.cluster, self.cluster)
        scene.without(*self.without)
        for copy, name in self.copies.items():
            scene.copied(name, copy)
        for name, overlay in self.pods.items():
            scene.changed(name, **overlay)
        for name, variables in self.env.items():
            scene.with_env(name, **variables)
        scene.nodes = [
            merged(node, self.nodes.get(node["metadata"]["name"], {})) for node in scene.nodes
        ]
        if self.namespaces:
            scene.namespaces = self.namespaces
        if self.services is not None:
            scene.services = [
                each for each in scene.services if each["metadata"]["name"] in self.services
            ]
        for kind in ("events", "pod_groups", "webhooks", "ray_jobs", "ray_services", "workloads"):
            getattr(scene, kind).extend(getattr(self, kind))
        return scene


def diagnosis_of(name: str) -> str:
    """Return the diagnosis that an example shows: the part of its name before a slash."""
    return name.partition("/")[0]


def samples() -> dict[str, Sample]:
    return json.decode(_examples(), type=dict[str, Sample])


def written() -> dict[str, Object]:
    """Return the examples as they are written, without what only the tests need."""
    return json.decode(_examples(), type=dict[str, Object])


@cache
def _examples() -> bytes:
    """Return the examples as JSON, which is decoded a hundred times faster than YAML."""
    return json.encode(yaml.load(FILE.read_text(encoding="utf-8"), yaml.CSafeLoader))
