"""Webhook configurations fail closed after a dry run through the API server has reached the
webhook.
"""

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certs.registry import (
    LEASES,
    MUTATING,
    VALIDATING,
    Registry,
    registry,
)
from tests.kubeclient.following import eventually
from tests.server import serving
from webhook.api import names
from webhook.app.informers import Connected
from webhook.kubeclient.client import Api
from webhook.kubeclient.kubeconfig import kubeconfig
from webhook.kubeclient.webhook_configurations import FailurePolicy

Object = dict[str, Any]
BUNDLE, OTHER = "b25l", "b3RoZXI="
SECONDS = 0.01


def configuration(entries: dict[str, str], asked: str) -> Object:
    """Return a configuration with entries by name, each with its caBundle, all of them open."""
    return {
        "metadata": {"annotations": {names.ANNOTATION_FAILURE_POLICY: asked}},
        "webhooks": [
            {"name": name, "clientConfig": {"caBundle": bundle}, "failurePolicy": "Ignore"}
            for name, bundle in entries.items()
        ],
    }


def installed(objects: Registry, asked: str = "Fail", pods: str = BUNDLE) -> None:
    """Store both configurations as they are applied."""
    entries = {"pods": pods, names.BINDINGS_WEBHOOK: BUNDLE, names.PROBE_WEBHOOK: BUNDLE}
    objects.put(MUTATING, configuration(entries, asked))
    objects.put(VALIDATING, configuration({"clusters": BUNDLE}, "Ignore"))


def admitted(lease: Object) -> Object:
    """Return the Lease as the webhook changes it."""
    found = copy.deepcopy(lease)
    found["metadata"]["annotations"] = {names.ANNOTATION_ADMITTED: "true"}
    return found


def closed(objects: Registry) -> set[str]:
    """Return the entries that fail closed."""
    return {
        entry["name"]
        for path in (MUTATING, VALIDATING)
        for entry in objects.objects.get(path, {"webhooks": []})["webhooks"]
        if entry["failurePolicy"] == "Fail"
    }


def follow(objects: Registry, folder: Path, until: Callable[[], bool]) -> None:
    """Keep the failure policies until a condition is met."""

    async def run() -> None:
        api = Api(kubeconfig(str(objects.kubeconfig(folder))))
        policy = FailurePolicy(api, "ray-webhook", "ray-webhook", SECONDS)
        running = asyncio.create_task(Connected(api, {"policy": policy}).run())
        try:
            await eventually(until, 60)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def probes(objects: Registry) -> int:
    """Return how many dry runs were made."""
    return sum(path.startswith(LEASES) for _, path in objects.requests)


def test_entries_are_closed_where_the_annotation_asks_once_a_dry_run_is_answered(
    tmp_path: Path,
) -> None:
    with registry() as objects:
        installed(objects)
        follow(objects, tmp_path, lambda: probes(objects) >= 3)
        assert closed(objects) == set()
        objects.admit = admitted
        follow(objects, tmp_path, lambda: closed(objects) == {"pods"})


def test_entries_that_an_upgrade_opened_are_closed_again(tmp_path: Path) -> None:
    with registry() as objects:
        objects.admit = admitted
        installed(objects)
        follow(objects, tmp_path, lambda: closed(objects) == {"pods"})
        installed(objects)
        follow(objects, tmp_path, lambda: closed(objects) == {"pods"})


def test_no_dry_run_is_made_where_nothing_has_to_be_closed(tmp_path: Path) -> None:
    with registry() as objects:
        objects.admit = admitted
        installed(objects, asked="Ignore")
        follow(objects, tmp_path, lambda: len(objects.requests) >= 6)
        assert probes(objects) == 0
        assert closed(objects) == set()


def test_an_entry_with_another_ca_bundle_than_the_one_in_use_stays_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with registry() as objects:
        objects.admit = admitted
        installed(objects, pods=OTHER)
        with caplog.at_level("WARNING", "webhook.kubeclient"):
            follow(objects, tmp_path, lambda: probes(objects) >= 3)
        assert closed(objects) == set()
    assert [text for text in caplog.messages if "pods: caBundle differs" in text] == [
        "failurePolicy stays Ignore: pods: caBundle differs from the one in use"
    ]


def test_before_there_is_a_ca_bundle_or_a_configuration_nothing_is_tried(tmp_path: Path) -> None:
    with registry() as objects:
        objects.admit = admitted
        installed(objects)
        objects.put(MUTATING, configuration({"pods": "", names.PROBE_WEBHOOK: ""}, "Fail"))
        follow(objects, tmp_path, lambda: len(objects.requests) >= 6)
        del objects.objects[MUTATING]
        follow(objects, tmp_path, lambda: len(objects.requests) >= 12)
        assert probes(objects) == 0
        assert closed(objects) == set()


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_webhook_marks_the_dry_run_of_a_lease_and_no_lease_that_is_stored(
    tmp_path: Path, *, dry_run: bool
) -> None:
    lease = {"metadata": {"name": "ray-webhook-probe"}, "spec": {}}
    request = {
        "uid": "1",
        "kind": {"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"},
        "resource": {"group": "coordination.k8s.io", "version": "v1", "resource": "leases"},
        "namespace": "ray-webhook",
        "operation": "CREATE",
        "object": lease,
        "dryRun": dry_run,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    trusting = httpx.Client(verify=False)  # noqa: S501 - the certificate is not the subject
    with serving(tmp_path, []) as server, trusting as client:
        answer = client.post(f"{server.url}/mutate", json=body).json()["response"]
    assert answer["allowed"]
    assert ("patch" in answer) == dry_run
