"""The installation in a real API server: every object, and the rights of the self-signed mode."""

import asyncio
import base64
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from cryptography import x509

from tests.e2e import build, needs
from tests.e2e.api import MUTATING_WEBHOOKS, PODS, SECRETS, VALIDATING_WEBHOOKS, Api, ApiError
from tests.e2e.control_plane import ControlPlane
from tests.e2e.helm import helm
from tests.e2e.installation import (
    ACCOUNT,
    NAMESPACE,
    REGISTRATIONS,
    applied,
    apply,
    bundles,
    removed,
)
from tests.e2e.waiting import until
from tests.harness.listener import ask
from tests.harness.server import ready
from tests.manifests import render
from tests.manifests.environment import environment
from tests.manifests.render import CHART, MODES, Object, installation, one
from tests.pages.blocks import kubectl_words
from webhook.api import names
from webhook.certs.issue import Pair
from webhook.certs.self_signed import SelfSigned
from webhook.kubeclient.client import Api as Client
from webhook.kubeclient.kubeconfig import kubeconfig
from webhook.kubeclient.secrets import SecretStore

pytestmark = pytest.mark.e2e

WAYS = ("kubectl apply", "kubectl apply --server-side")
"""In which kubectl installs."""

HEAD, WORKER = {names.LABEL_NODE_TYPE: "head"}, {names.LABEL_NODE_TYPE: "worker"}
INDEXED = WORKER | {names.LABEL_REPLICA_INDEX: "0"}
NAMES = [f"ray-webhook.{NAMESPACE}.svc", f"ray-webhook.{NAMESPACE}.svc.cluster.local"]


def served(objects: list[Object]) -> list[Object]:
    """Return the objects without those of cert-manager, which are not served."""
    return [found for found in objects if not found["apiVersion"].startswith("cert-manager.io/")]


@pytest.mark.parametrize("mode", MODES)
def test_every_object_passes_a_server_side_dry_run(control_plane: ControlPlane, mode: str) -> None:
    control_plane.namespace(NAMESPACE)
    objects = installation(mode)
    apply(control_plane, served(objects), "--dry-run=server", "--force-conflicts")


def test_the_account_of_the_self_signed_mode_fills_its_secret_and_both_bundles(
    control_plane: ControlPlane,
) -> None:
    control_plane.namespace(NAMESPACE)
    with applied(control_plane, installation("self-signed")):
        pairs = fetched(control_plane, 3)
        assert {pair.certificate for pair in pairs} == {
            base64.b64decode(stored(control_plane)["tls.crt"])
        }
        assert bundles(control_plane) == {stored(control_plane)["ca.crt"]}


@pytest.mark.parametrize(
    "way", [*WAYS, *(way.replace("kubectl", build.PREVIOUS_KUBECTL) for way in WAYS), "helm"]
)
def test_an_upgrade_leaves_certificate_and_bundles(control_plane: ControlPlane, way: str) -> None:
    if way.startswith(build.PREVIOUS_KUBECTL):
        needs.PREVIOUS_KUBECTL.ask()
    control_plane.namespace(NAMESPACE)
    objects = installation("self-signed")
    with removed(control_plane, objects):
        install(control_plane, way, objects)
        (pair,) = fetched(control_plane, 1)
        before = stored(control_plane)
        one(objects, "ValidatingWebhookConfiguration")["webhooks"][0]["timeoutSeconds"] = 7
        install(control_plane, way, objects, "--set", "validating.timeoutSeconds=7")
        (webhook,) = control_plane.api.get(VALIDATING_WEBHOOKS, "ray-webhook")["webhooks"]
        assert webhook["timeoutSeconds"] == 7
        assert stored(control_plane) == before
        assert bundles(control_plane) == {before["ca.crt"]}
        assert fetched(control_plane, 1) == [pair]


def install(plane: ControlPlane, way: str, objects: list[Object], *values: str) -> None:
    if way == "helm":
        done = helm(plane, "upgrade", "--install", "ray-webhook", str(CHART), *values)
        assert "rollout status deployment/ray-webhook" in done.stdout, done.stderr
    else:
        program, *words = way.split()
        text = yaml.safe_dump_all(objects)
        done = plane.kubectl(*words, "-f", "-", stdin=text, program=program)
    assert done.returncode == 0, done.stderr


def stored(plane: ControlPlane) -> dict[str, str]:
    data: dict[str, str] = plane.api.get(SECRETS, "ray-webhook-tls", NAMESPACE)["data"]
    return data


def test_with_the_rights_and_settings_of_the_manifests_the_service_becomes_ready(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    control_plane.namespace(NAMESPACE)
    objects = installation("self-signed")
    with applied(control_plane, objects), running(control_plane, objects, tmp_path) as (url, admin):
        until(lambda: is_ready(admin), "it is ready")
        lines = httpx.get(f"{admin}/readyz?verbose", timeout=30).text
        assert "[+] worker pods" in lines
        assert "[+] certificate: expires 20" in lines
        (bundle,) = bundles(control_plane)
        trust = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        number, answer = ask(urlsplit(url).port or 0, trust, name=NAMES[0])
        assert (
            number
            == x509.load_pem_x509_certificate(
                base64.b64decode(stored(control_plane)["tls.crt"])
            ).serial_number
        )
        assert answer.startswith(b"HTTP/1.1 404")
        words = kubectl_words("kubectl -n ray-webhook patch secret")
        assert control_plane.kubectl(*words).returncode == 0
        until(lambda: not {"", bundle} & bundles(control_plane), "there is another authority")
        assert trusted(control_plane)


def test_installed_as_argo_cd_does_the_service_is_ready_before_its_configurations_exist(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    control_plane.namespace(NAMESPACE)
    objects = installation("self-signed")
    later = [found for found in objects if found["kind"] in REGISTRATIONS]
    first = [found for found in objects if found not in later]
    waves = {found["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] for found in later}
    assert waves == {"1"}
    with removed(control_plane, later), applied(control_plane, first):
        with running(control_plane, objects, tmp_path) as (_, admin):
            until(lambda: is_ready(admin), "it is ready")
            apply(control_plane, later)
            until(lambda: trusted(control_plane), "it is trusted")
        control_plane.kubectl("delete", "mutatingwebhookconfiguration", "ray-webhook")
        with running(control_plane, objects, tmp_path) as (_, admin):
            until(lambda: is_ready(admin), "it is ready")
            apply(control_plane, later)
            until(lambda: trusted(control_plane), "it is trusted")


def is_ready(admin: str) -> bool:
    return httpx.get(f"{admin}/readyz", timeout=30).is_success


def trusted(plane: ControlPlane) -> bool:
    return bundles(plane) == {stored(plane)["ca.crt"]}


@contextmanager
def running(plane: ControlPlane, objects: list[Object], folder: Path) -> Iterator[tuple[str, str]]:
    """Run the service as its account and with its settings, on free ports, without a drain.

    The namespace is the one that a pod would find itself in.
    """
    flags = [
        "--kubeconfig", str(plane.kubeconfig(ACCOUNT)), "--host", "127.0.0.1", "--port", "0",
        "--admin-port", "0",
    ]  # fmt: skip
    flags += ["--installation.namespace", NAMESPACE]
    command = [
        sys.executable, "-m", "webhook.cli.main", "serve", *flags, "--serving.drain-seconds", "0",
    ]  # fmt: skip
    variables = {**os.environ, **environment(objects, "ray-webhook", folder)}
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        start_new_session=True,
    ) as process:
        try:
            yield ready(process)
        finally:
            process.terminate()
            process.wait(20)


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


@pytest.mark.parametrize("release", ["ray-webhook", "team"])
def test_an_installation_whose_image_never_runs_refuses_only_workers_that_need_it(
    control_plane: ControlPlane, release: str
) -> None:
    """No image is ever pulled here, so the webhook does not run."""
    namespace = control_plane.namespace(NAMESPACE if release == "ray-webhook" else "elsewhere")
    target = control_plane.namespace("before-the-webhook")
    objects = render.helm(release=release, namespace=namespace)
    with removed(control_plane, objects):
        apply(control_plane, objects, "--force-conflicts")
        until(lambda: refuses(control_plane, target, WORKER), "a worker is refused")
        assert refuses(control_plane, target, INDEXED | {names.LABEL_HOST_INDEX: "0"})
        assert not refuses(control_plane, target, INDEXED)
        assert not refuses(control_plane, target, HEAD)


def refuses(plane: ControlPlane, namespace: str, labels: dict[str, str]) -> bool:
    meta = {"name": "probe", "labels": labels}
    body = {"metadata": meta, "spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    try:
        plane.api.create(PODS, body, namespace, dryRun="All")
    except ApiError:
        return True
    return False
