"""What is installed, in a real API server: every object, the rights of the self-signed mode, and the policies."""

import asyncio
import base64
import json
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.e2e.api import NAMESPACES, PODS, ApiError
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import ACCOUNT, NAMESPACE, applied, apply
from tests.manifests.render import MODES, Object, helm, kustomize, overlay
from webhook.cluster.client import kubeconfig
from webhook.cluster.errors import ApiError as ClientError
from webhook.cluster.secrets import SecretVault
from webhook.tls.issue import Pair
from webhook.tls.selfsigned import SelfSigned

pytestmark = pytest.mark.e2e

NAMES = [f"ray-webhook.{NAMESPACE}.svc", f"ray-webhook.{NAMESPACE}.svc.cluster.local"]


def served(objects: list[Object]) -> list[Object]:
    """Return the objects without those of cert-manager, whose resources this API server does not serve."""
    return [found for found in objects if not found["apiVersion"].startswith("cert-manager.io/")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["overlay", "chart"])
def test_every_object_passes_a_server_side_dry_run(control_plane: ControlPlane, mode: str, way: str) -> None:
    control_plane.namespace(NAMESPACE)
    objects = overlay(mode) if way == "overlay" else helm("--set", f"certificates.source={mode}")
    apply(control_plane, served(objects), "--dry-run=server", "--force-conflicts")


def test_the_account_of_the_self_signed_mode_fills_its_secret_and_both_bundles(control_plane: ControlPlane) -> None:
    control_plane.namespace(NAMESPACE)
    objects = overlay("self-signed")
    with applied(control_plane, objects):
        pairs = asyncio.run(fetch(control_plane.kubeconfig(ACCOUNT), 3))
        secret = get(control_plane, "secret", "ray-webhook-tls", "-n", NAMESPACE)["data"]
        assert {pair.certificate for pair in pairs} == {base64.b64decode(secret["tls.crt"])}
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            (webhook,) = get(control_plane, kind, "ray-webhook")["webhooks"]
            assert webhook["clientConfig"]["caBundle"] == secret["ca.crt"]

        apply(control_plane, objects)
        assert get(control_plane, "secret", "ray-webhook-tls", "-n", NAMESPACE)["data"] == secret
        assert asyncio.run(fetch(control_plane.kubeconfig(ACCOUNT), 1)) == pairs[:1]


async def fetch(config: Path, replicas: int) -> list[Pair]:
    """Return the pair of each of several replicas that start at once."""
    vaults = [
        SecretVault(kubeconfig(str(config)), NAMESPACE, "ray-webhook-tls", "ray-webhook", "ray-webhook") for _ in range(replicas)
    ]
    connections = [asyncio.create_task(vault.run()) for vault in vaults]
    try:
        return await asyncio.gather(*(SelfSigned(vault, NAMES, ClientError).fetch() for vault in vaults))
    finally:
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def get(plane: ControlPlane, *words: str) -> Object:
    """Return an object."""
    done = plane.kubectl("get", *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: Object = json.loads(done.stdout)
    return found


def test_the_policy_refuses_a_host_of_a_slice_without_its_seat_and_nothing_else(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("policy")
    ignored = control_plane.namespace("policy-ignored")
    control_plane.api.patch(NAMESPACES, ignored, {"metadata": {"labels": {"admission.ray.io/ignore": "true"}}})
    seat = {"ray.io/worker-group-replica-index": "0", "ray.io/worker-group-replica-name": "a", "ray.io/replica-host-index": "0"}
    named = [{"name": "TPU_WORKER_ID", "value": "0"}, {"name": "TPU_WORKER_HOSTNAMES", "value": "a,b"}]
    with applied(control_plane, kustomize("manifests/policies")):
        until_refused(control_plane, namespace)
        for refused, text in (
            (pod(named), "has no seat"),
            (pod(None, seat), "no TPU_WORKER_ID"),
            (pod(named[:1], seat), "no TPU_WORKER_ID"),
            (pod(None, seat, topology="4x4x4"), "no TPU_WORKER_ID"),
        ):
            with pytest.raises(ApiError, match=text):
                create(control_plane, namespace, refused)
        for allowed in (
            pod(named, seat),
            pod(topology="2x2"),
            pod(topology="2x2x1"),
            pod(topology=""),
            pod(topology="wide"),
            pod(resource="nvidia.com/gpu"),
            pod(node_type="head"),
        ):
            create(control_plane, namespace, allowed)
        create(control_plane, ignored, pod())


def until_refused(plane: ControlPlane, namespace: str, seconds: float = 20) -> None:
    """Wait until the API server has taken the policy in."""
    end = monotonic() + seconds
    while monotonic() < end:
        try:
            create(plane, namespace, pod())
        except ApiError:
            return
        sleep(0.1)
    raise TimeoutError("the policy is not in force")


def create(plane: ControlPlane, namespace: str, body: Object) -> None:
    """Create a pod, for show. Raises ApiError."""
    plane.api.create(PODS, body, namespace, dryRun="All")


def pod(
    env: list[dict[str, str]] | None = None,
    labels: dict[str, str] | None = None,
    *,
    topology: str = "4x4",
    resource: str = "google.com/tpu",
    node_type: str = "worker",
) -> dict[str, Any]:
    """Return a pod of four chips."""
    container = {"name": "ray", "image": "ray", "resources": {"limits": {resource: "4"}}, **({"env": env} if env else {})}
    selector = {"nodeSelector": {"cloud.google.com/gke-tpu-topology": topology}} if topology else {}
    meta = {"name": "probe", "labels": {"ray.io/node-type": node_type, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **selector}}
