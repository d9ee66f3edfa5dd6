"""The installation in a real API server: every object, and the rights of the self-signed mode."""

import asyncio
import base64
from pathlib import Path

import pytest
import yaml

from tests.e2e import build, needs
from tests.e2e.api import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Api
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import Deployed
from tests.e2e.installation import (
    ACCOUNT,
    NAMESPACE,
    REGISTRATIONS,
    apply,
    apply_kustomization,
    bundles,
    removed,
    run_helm,
)
from tests.e2e.waiting import until
from tests.manifests.render import CHART, MODES, Object, installation, one
from tests.pages.blocks import kubectl_words
from webhook.certs.issue import Pair
from webhook.certs.self_signed import SelfSigned
from webhook.kubeclient.client import Api as Client
from webhook.kubeclient.kubeconfig import kubeconfig
from webhook.kubeclient.secrets import SecretStore

pytestmark = pytest.mark.e2e

WAYS = ("kubectl apply", "kubectl apply --server-side")
"""In which kubectl installs."""

NAMES = [f"ray-webhook.{NAMESPACE}.svc", f"ray-webhook.{NAMESPACE}.svc.cluster.local"]


def served(objects: list[Object]) -> list[Object]:
    """Return the objects without those of cert-manager, which are not served."""
    return [found for found in objects if not found["apiVersion"].startswith("cert-manager.io/")]


@pytest.mark.parametrize("mode", MODES)
def test_every_object_passes_a_server_side_dry_run(control_plane: ControlPlane, mode: str) -> None:
    control_plane.namespace(NAMESPACE)
    objects = installation(mode)
    apply(control_plane, served(objects), "--dry-run=server", "--force-conflicts")


@pytest.mark.parametrize(
    "way", [*WAYS, *(way.replace("kubectl", build.PREVIOUS_KUBECTL) for way in WAYS), "helm"]
)
def test_an_upgrade_leaves_certificate_and_bundles(control_plane: ControlPlane, way: str) -> None:
    if way.startswith(build.PREVIOUS_KUBECTL):
        needs.OTHERS.ask()
    control_plane.namespace(NAMESPACE)
    objects = installation("self-signed")
    with removed(control_plane, objects):
        install(control_plane, way, objects)
        pair, *others = fetched(control_plane, 3)
        before = stored(control_plane)
        assert pair.certificate == base64.b64decode(before["tls.crt"])
        assert others == [pair, pair]
        assert bundles(control_plane) == {before["ca.crt"]}
        one(objects, "ValidatingWebhookConfiguration")["webhooks"][0]["timeoutSeconds"] = 7
        install(control_plane, way, objects, "--set", "validating.timeoutSeconds=7")
        (webhook,) = control_plane.api.get(VALIDATING_WEBHOOKS, "ray-webhook")["webhooks"]
        assert webhook["timeoutSeconds"] == 7
        assert stored(control_plane) == before
        assert bundles(control_plane) == {before["ca.crt"]}
        assert fetched(control_plane, 1) == [pair]


def install(plane: ControlPlane, way: str, objects: list[Object], *values: str) -> None:
    if way == "helm":
        text = run_helm(plane, "upgrade", "--install", "ray-webhook", str(CHART), *values)
        assert "rollout status deployment/ray-webhook" in text
    else:
        program, *words = way.split()
        plane.run_kubectl(*words, "-f", "-", stdin=yaml.safe_dump_all(objects), program=program)


def stored(plane: ControlPlane) -> dict[str, str]:
    data: dict[str, str] = plane.api.get(SECRETS, "ray-webhook-tls", NAMESPACE)["data"]
    return data


def test_installed_as_argo_cd_does_the_service_is_ready_before_its_configurations_exist(
    plane: ControlPlane,
) -> None:
    objects = installation("self-signed")
    later = [found for found in objects if found["kind"] in REGISTRATIONS]
    first = [found for found in objects if found not in later]
    plane.namespace(NAMESPACE)
    apply(plane, first)
    with Deployed(plane):
        for _ in range(2):
            apply(plane, later)
            until(lambda: bundles(plane) == {stored(plane)["ca.crt"]}, "it is trusted")
            plane.kubectl("delete", "mutatingwebhookconfiguration", "ray-webhook")


def test_the_manifests_install_a_webhook_that_passes_the_check(plane: ControlPlane) -> None:
    apply_kustomization(plane, "manifests")
    with Deployed(plane):
        plane.check()
        apply_kustomization(plane, "manifests")
        plane.check()
        before = bundles(plane)
        plane.run_kubectl(*kubectl_words("kubectl -n ray-webhook patch secret"))
        until(lambda: not ({""} | before) & bundles(plane), "there is another authority")
        until(lambda: len(bundles(plane)) == 1, "both configurations have it")


def fetched(plane: ControlPlane, replicas: int) -> list[Pair]:
    """Return the pair of each replica, once the authorizer knows the rights of their account."""
    config = plane.kubeconfig(ACCOUNT)
    account = Api.of_kubeconfig(config)
    paths = (
        SECRETS.path(NAMESPACE, "ray-webhook-tls"),
        MUTATING_WEBHOOKS.path(None, "ray-webhook"),
    )
    until(lambda: all(map(account.ok, paths)), "the account may read what it keeps")
    return asyncio.run(fetch(config, replicas))


async def fetch(config: Path, replicas: int) -> list[Pair]:
    """Return the pair of each of several replicas that start at once."""
    async with Client(kubeconfig(str(config))) as api:
        secret_stores = [SecretStore(api, NAMESPACE, "ray-webhook") for _ in range(replicas)]
        return await asyncio.gather(
            *(SelfSigned(secret_store, NAMES).fetch() for secret_store in secret_stores)
        )
