"""Stored objects that the rules would refuse today can still be edited by users and controllers.

An update without a new mistake is allowed, and one with a mistake is denied for this mistake only.
"""

import asyncio
import copy
import json
from collections.abc import Callable
from functools import partial

import pytest

from tests.harness.apiserver import object_review
from tests.harness.scenes import merged
from tests.lab.parity.mutants import EXAMPLES, Json, mutants, seeds
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import ObjectReviewer
from webhook.api import names
from webhook.validation.finding import DENY
from webhook.validation.rule_settings import DEFAULTS
from webhook.validation.ruleset import check, check_file
from webhook.validation.schema import prune_object

COUNT = 125
CLUSTER_AT = {
    "RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",),
    "RayCronJob": ("jobTemplate", "rayClusterSpec"),
}  # fmt: skip
OF_THE_CRD = {"schema-violated", "value-not-decodable"}
POD = {"spec": {"containers": [{
    "name": "ray", "image": "example.com/ray:own",
    "resources": {"limits": {"cpu": "1", "memory": "4Gi"}}}]}}  # fmt: skip


@pytest.fixture(scope="module", name="objects")
def _objects() -> list[Json]:
    """Return broken objects as an API server without the webhook would have kept them."""
    found: list[Json] = []
    for value in mutants(seeds(EXAMPLES), 11):
        kept = prune_object(value["kind"], value, None)
        wrong = {each.rule for each in check_file(kept["kind"], kept) if each.level == DENY}
        if wrong and not wrong & OF_THE_CRD:
            if names.LABEL_IGNORE in (kept["metadata"].get("labels") or {}):
                continue  # the server would not look at it
            kept["metadata"].setdefault("name", "generated-x1")
            found.append(kept)
        if len(found) == COUNT:
            break
    return found


def respond(new: Json, old: Json) -> Json:
    body = json.dumps(object_review(new, old=old)).encode()
    response: Json = json.loads(asyncio.run(ObjectReviewer(RayHandler()).review(body)).body)
    return dict(response["response"])


def cluster_of(value: Json) -> Json | None:
    held = value.get("spec")
    for name in CLUSTER_AT[value["kind"]]:
        held = held.get(name) if isinstance(held, dict) else None
    return held if isinstance(held, dict) else None


def groups_of(value: Json) -> list[Json]:
    return (cluster_of(value) or {}).get("workerGroupSpecs") or []


def _overlay(value: Json, overlay: Json) -> None:
    value |= merged(value, overlay)


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OVERLAYS: dict[str, Json] = {
    "finalizer": {"metadata": {"finalizers": ["ray.io/gcs-ft-redis-cleanup-finalizer"]}},
    "note": {"metadata": {"annotations": {"example.com/note": "x"}}},
    "apply": {"metadata": {"annotations": {APPLIED: "{}"},
     "managedFields": [{"manager": "kubectl", "operation": "Update"}]}},
    "deletion": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}},
    "status": {"status": {"state": "ready", "observedGeneration": 2}},
}  # fmt: skip


def _autoscale(value: Json) -> None:
    for group in groups_of(value)[:1]:
        group["replicas"] = 1
        group["scaleStrategy"] = {"workersToDelete": ["a"]}


def _variable(value: Json) -> None:
    for group in groups_of(value):
        for container in group.get("template", {}).get("spec", {}).get("containers") or []:
            container.setdefault("env", []).append({"name": "TEAM", "value": "a"})


def _admit(value: Json) -> None:
    """Let Kueue admit an object in a queue, or stop it."""
    spec = value.get("spec")
    if isinstance(spec, dict) and value["kind"] != "RayCronJob":
        spec["suspend"] = not spec.get("suspend", False)


def _raise(value: Json) -> None:
    """Let groups grow further, which fixes bounds by a part."""
    for group in groups_of(value):
        most = group.get("maxReplicas")
        if most is not None and most < 2**31 - 1:
            group["maxReplicas"] = most + 1


def _add(value: Json, **fields: object) -> bool:
    spec = cluster_of(value)
    if spec is None or not isinstance(spec.get("workerGroupSpecs"), list):
        return False
    group = {"groupName": "added", "minReplicas": 0, "maxReplicas": 1, "rayStartParams": {}}
    spec["workerGroupSpecs"].append({**group, "template": copy.deepcopy(POD), **fields})
    return True


EDITS: dict[str, Callable[[Json], object]] = {
    **{name: partial(_overlay, overlay=overlay) for name, overlay in OVERLAYS.items()},
    "raise": _raise, "grow": _add, "autoscale": _autoscale, "variable": _variable,
    "admit": _admit,
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_without_new_faults_passes(edit: str, objects: list[Json]) -> None:
    assert len(objects) == COUNT
    for value in objects:
        old = copy.deepcopy(value)
        if edit == "admit":
            old["metadata"].setdefault("labels", {})[names.LABEL_KUEUE_QUEUE] = "queue"
        new = copy.deepcopy(old)
        EDITS[edit](new)
        response = respond(new, old)
        assert response["allowed"], (response["status"], old)


def test_an_edit_is_denied_for_its_mistake(objects: list[Json]) -> None:
    rule, tried = "num-of-hosts-invalid", 0
    for old in objects:
        new = copy.deepcopy(old)
        denied = {each.rule for each in check(old["kind"], old, DEFAULTS) if each.level == DENY}
        if not _add(new, numOfHosts=-1) or rule in denied:
            continue
        tried += 1
        response = respond(new, old)
        assert not response["allowed"], old
        causes = response["status"]["details"]["causes"]
        messages = [cause["message"].splitlines()[0] for cause in causes]
        said = [message.rpartition("[")[2].rstrip("]") for message in messages]
        assert said == [rule], (causes, old)
    assert tried > COUNT // 2
