"""Stored objects that the rules would refuse today can still be edited by people and controllers."""

import copy
from collections.abc import Callable
from itertools import islice

import pytest

from tests.parity.mutants import EXAMPLES, Json, mutants, seeds
from webhook.validation.change import replicas_of
from webhook.validation.finding import DENY
from webhook.validation.ruleset import check, check_update
from webhook.validation.schema import pruned

COUNT = 200
GROUPS = {
    "RayCluster": (),
    "RayJob": ("rayClusterSpec",),
    "RayService": ("rayClusterConfig",),
    "RayCronJob": ("jobTemplate", "rayClusterSpec"),
}


def stored() -> list[Json]:
    """Return broken objects as an API server without the webhook would have kept them."""
    found: list[Json] = []
    for value in islice(mutants(seeds(EXAMPLES), 11), 20 * COUNT):
        kept = pruned(value["kind"], value, None)
        if isinstance(kept.get("metadata"), dict) and _broken(kept):
            found.append(kept)
        if len(found) == COUNT:
            break
    return found


def _broken(value: Json) -> bool:
    return any(finding.level == DENY for finding in check(value["kind"], value))


def _finalizer(value: Json) -> None:
    value["metadata"]["finalizers"] = ["ray.io/gcs-ft-redis-cleanup-finalizer"]


def _annotation(value: Json) -> None:
    _put(value["metadata"], "annotations", "example.com/note", "x")


def _label(value: Json) -> None:
    _put(value["metadata"], "labels", "team", "a")


def _put(holder: Json, name: str, key: str, text: str) -> None:
    if isinstance(holder.setdefault(name, {}), dict):
        holder[name][key] = text


def _deletion(value: Json) -> None:
    value["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}


def _scale(value: Json) -> None:
    if not replicas_of(value["kind"], value):
        return
    held = value["spec"]
    for name in GROUPS[value["kind"]]:
        held = held[name]
    for group in held["workerGroupSpecs"]:
        if isinstance(group, dict):
            group["replicas"] = 3
            group["scaleStrategy"] = {"workersToDelete": ["a"]}


def _status(value: Json) -> None:
    value["status"] = {"state": "ready"}


EDITS = (_finalizer, _annotation, _label, _deletion, _scale, _status)


@pytest.fixture(scope="module", name="objects")
def _objects() -> list[Json]:
    return stored()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
def test_an_edit_that_breaks_nothing_more_passes(edit: Callable[[Json], None], objects: list[Json]) -> None:
    assert len(objects) == COUNT
    for old in objects:
        new = copy.deepcopy(old)
        edit(new)
        found = check_update(old["kind"], old, new)
        assert [each for each in found if each.level == DENY] == [], (each.path for each in found)
