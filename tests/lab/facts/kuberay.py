"""Facts of KubeRay, from the sources of its Go module."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.lab.facts.fact import MISSING, Fact, value
from webhook.api import names

NAMES: Final = "webhook.api.names"
CONSTANTS: Final = {
    "LABEL_CLUSTER": "RayClusterLabelKey",
    "LABEL_GROUP": "RayNodeGroupLabelKey",
    "LABEL_NODE_TYPE": "RayNodeTypeLabelKey",
    "NODE_TYPE_HEAD": "HeadNode",
    "NODE_TYPE_WORKER": "WorkerNode",
    "HEAD_GROUP": "RayNodeHeadGroupLabelValue",
    "LABEL_REPLICA_INDEX": "RayWorkerReplicaIndexKey",
    "LABEL_REPLICA_NAME": "RayWorkerReplicaNameKey",
    "LABEL_HOST_INDEX": "RayHostIndexKey",
    "ANNOTATION_FT_ENABLED": "RayFTEnabledAnnotationKey",
    "ANNOTATION_EXTERNAL_STORAGE": "RayExternalStorageNSAnnotationKey",
    "ANNOTATION_INITIALIZING_TIMEOUT": "RayServiceInitializingTimeoutAnnotation",
    "LABEL_ORIGIN_KIND": "RayOriginatedFromCRDLabelKey",
    "LABEL_GANG": "RayGangSchedulingEnabled",
    "RAY_REDIS_ADDRESS": "RAY_REDIS_ADDRESS",
    "REDIS_PASSWORD": "REDIS_PASSWORD",
    "REDIS_USERNAME": "REDIS_USERNAME",
    "RAY_ENABLE_AUTOSCALER_V2": "RAY_ENABLE_AUTOSCALER_V2",
}
"""Ours in `webhook/api/names.py`, and theirs."""

LENGTHS: Final = {
    names.RAYCLUSTER_KIND: "MaxRayClusterNameLength",
    names.RAYJOB_KIND: "MaxRayJobNameLength",
    names.RAYSERVICE_KIND: "MaxRayServiceNameLength",
}
TEXTS: Final = (
    "webhook.api.names:OTHER_SCHEDULER_LABELS",
    "webhook.api.names:BATCH_SCHEDULERS",
    "webhook.validation.ray_start:_LOST",
    "webhook.validation.ray_start:_WORKER_LOST",
    "webhook.validation.ray_start:_REPLACED",
)
"""Ours of which each stands somewhere in KubeRay's sources, as a text of its own."""

NEWER_TEXTS: Final = (
    "webhook.api.names:TLS_VARIABLES",
    "webhook.validation.fault_tolerance:_MANAGED",
)
AHEAD: Final = "ours is of KubeRay 1.7.0, whose module is not published"

LONGEST: Final = "webhook.validation.metadata:LONGEST"

_CONSTANT: Final = re.compile(
    r"^\s*(?:const\s+)?(\w+)(?:\s+\w+)?\s*=\s*(?:\"([^\"\n]*)\"|(\d+)|(\w+) - (\d+))\s*(?://.*)?$",
    re.MULTILINE,
)
_GATE: Final = re.compile(r"^\s*(\w+):\s*\{Default:\s*(true|false),", re.MULTILINE)
_TEXT: Final = re.compile(r"\"([^\"\n]+)\"")


def facts(module: Path) -> Iterator[Fact]:
    """The facts that the sources of a KubeRay decide; `module` is the folder of its Go module."""
    sources = [
        path.read_text()
        for path in sorted(module.rglob("*.go"))
        if not path.name.endswith("_test.go")
    ]
    declared = constants("\n".join(sources))
    for ours, theirs in CONSTANTS.items():
        place = f"{NAMES}:{ours}"
        yield Fact(place, theirs, value(place), declared.get(theirs, MISSING))
    for kind, name in LENGTHS.items():
        yield Fact(LONGEST, name, value(LONGEST)[kind], declared.get(name, MISSING))
    texts = {found for source in sources for found in _TEXT.findall(source)}
    for place in (*TEXTS, *NEWER_TEXTS):
        ahead = AHEAD if place in NEWER_TEXTS else ""
        own = {*value(place)}
        yield Fact(place, "texts in KubeRay's sources", own, own & texts, ahead)


def constants(source: str) -> dict[str, str | int]:
    """The constants of Go sources that are texts, numbers, or a number less than another one."""
    found: dict[str, str | int] = {}
    for name, text, number, base, less in _CONSTANT.findall(source):
        if base:
            start = found.get(base)
            if isinstance(start, int):
                found[name] = start - int(less)
        else:
            found[name] = int(number) if number else text
    return found


def gates(module: Path) -> dict[str, bool]:
    text = (module / "pkg" / "features" / "features.go").read_text()
    return {name: default == "true" for name, default in _GATE.findall(text)}
