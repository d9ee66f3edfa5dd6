"""The API server's audit log has the identity of each pod, and the rules with findings."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import lines
from tests.e2e.rays import slices, worker_of
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

IDENTITY = "pods.admission.ray.io/identity"
RULES = "clusters.admission.ray.io/rules"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def plane(log: Path) -> Iterator[ControlPlane]:
    policy = log.with_name("policy.json")
    rule = {"level": "Metadata", "verbs": ["create"], "omitStages": ["RequestReceived"]}
    policy.write_text(
        json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [rule]})
    )
    flags = [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-mode=blocking",
    ]
    with ControlPlane(api_server_flags=flags) as running, Webhook(running):
        yield running


def annotations(log: Path, namespace: str, resource: str) -> list[Json]:
    entries = [json.loads(line) for line in lines(log)]
    about = [(entry, entry.get("objectRef") or {}) for entry in entries]
    return [
        entry.get("annotations") or {}
        for entry, found in about
        if (found.get("namespace"), found.get("resource")) == (namespace, resource)
    ]


def test_the_identity_of_each_worker_is_in_the_audit_log(plane: ControlPlane, log: Path) -> None:
    namespace = plane.namespace("identities-audited")
    cluster = plane.api.create(RAY_CLUSTERS, slices("one", 1), namespace)
    for _ in range(2):
        plane.api.create(PODS, worker_of(cluster), namespace)
    assert [found[IDENTITY] for found in annotations(log, namespace, "pods")] == [
        "tpu-group/0/0",
        "tpu-group/0/1",
    ]
    plane.delete_ray_cluster("one", namespace)


def test_the_rules_that_refuse_are_in_the_audit_log(plane: ControlPlane, log: Path) -> None:
    namespace = plane.namespace("rules-audited")
    broken = slices("broken", 1)
    broken["spec"]["workerGroupSpecs"] *= 2
    with pytest.raises(ApiError):
        plane.api.create(RAY_CLUSTERS, broken, namespace)
    (found,) = annotations(log, namespace, "rayclusters")
    assert "group-name-duplicate" in found[RULES].split(", ")
