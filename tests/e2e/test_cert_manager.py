"""The installation by `kubectl apply -k certs/overlay`, with the real cert-manager: its certificate
is issued and renewed, its authority renewed and replaced, without failed calls of the API server.
"""

import base64
import socket
import ssl
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.e2e.api import PODS, RAY_CLUSTERS, SECRETS, ApiError, Json
from tests.e2e.cert_manager import CertManager
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import CERTIFICATE, Deployed
from tests.e2e.installation import NAMESPACE, WEBHOOK, apply_kustomization, bundles
from tests.e2e.process import NO_ANSWER
from tests.e2e.rays import slices, worker_of
from tests.e2e.waiting import Repeated, until, until_equal
from webhook.api import names

pytestmark = pytest.mark.e2e

AUTHORITY = "ray-webhook-ca"
SERVICE = f"{WEBHOOK}.{NAMESPACE}.svc"
MOUNT_SECONDS = 4
"""How much later than in the caBundles, at least, a new certificate is in the pods."""


class Calls:
    """Asks again and again: through the API server, and as one that has no connection yet."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self.answered = 0
        self.lost: list[str] = []
        self._ask = ask

    def some_more(self) -> None:
        wanted = self.answered + len(self.lost) + 5
        until(lambda: self.answered + len(self.lost) >= wanted, "calls go on")

    def call(self) -> None:
        try:
            self._ask()
            self.answered += 1
        except (ApiError, *NO_ANSWER, AssertionError) as error:
            self.lost.append(repr(error))


def test_certificate_and_authority_change_and_no_call_is_lost(plane: ControlPlane) -> None:
    with CertManager(plane) as cert_manager:
        team = plane.namespace("team")
        worker = worker_of(plane.api.create(RAY_CLUSTERS, slices("llama", 1), team))
        apply_kustomization(plane, "certs/overlay")
        with Deployed(plane, MOUNT_SECONDS, lambda: is_trusted(plane)) as deployed:
            until(lambda: is_trusted(plane), "cainjector has written both caBundles")
            until(lambda: has_identity(plane, worker), "the API server asks the webhook")
            plane.check()

            def ask() -> None:
                assert has_identity(plane, worker)
                for bundle in bundles(plane):
                    for address in deployed.addresses:
                        served(address, bundle)

            calls = Calls(ask)
            with Repeated(calls.call, 0.1):
                first = authority_of(plane)
                cert_manager.renew(CERTIFICATE, NAMESPACE)
                assert authority_of(plane) == first
                taken_over(plane, deployed)
                calls.some_more()

                cert_manager.renew(AUTHORITY, NAMESPACE)
                calls.some_more()
                second = signed_anew(plane, cert_manager, first)
                assert key_of(second) == key_of(first)
                until(lambda: is_trusted(plane), "the renewed authority is in both caBundles")
                calls.some_more()
                taken_over(plane, deployed)
                calls.some_more()

                plane.api.delete(SECRETS, AUTHORITY, NAMESPACE)
                stored = SECRETS.path(NAMESPACE, AUTHORITY)
                until(lambda: plane.api.ok(stored), "there is another authority")
                calls.some_more()
                third = signed_anew(plane, cert_manager, second)
                assert key_of(third) != key_of(second)
                until(lambda: is_trusted(plane), "the other authority is in both caBundles")
                calls.some_more()
                taken_over(plane, deployed)
                calls.some_more()
            assert calls.lost == []


def signed_anew(plane: ControlPlane, cert_manager: CertManager, previous: str) -> str:
    """Renew the certificate until another authority than the previous one has signed it, of which
    cert-manager may hear a little later; return that one.
    """

    def signed() -> bool:
        cert_manager.renew(CERTIFICATE, NAMESPACE)
        return authority_of(plane) != previous

    until(signed, "another authority signs")
    return authority_of(plane)


def taken_over(plane: ControlPlane, deployed: Deployed) -> None:
    stored = x509.load_pem_x509_certificate(base64.b64decode(secret(plane, CERTIFICATE)["tls.crt"]))
    bundle = next(iter(bundles(plane)))
    until_equal(
        lambda: {served(address, bundle).serial_number for address in deployed.addresses},
        {stored.serial_number},
        "the certificate is served",
    )


def served(address: tuple[str, int], bundle: str) -> x509.Certificate:
    """Return the certificate of a process. Raises ssl.SSLError when a bundle does not trust it."""
    trust = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    with (
        socket.create_connection(address, timeout=10) as connection,
        trust.wrap_socket(connection, server_hostname=SERVICE) as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)


def secret(plane: ControlPlane, name: str) -> Json:
    data: Json = plane.api.get(SECRETS, name, NAMESPACE)["data"]
    return data


def key_of(authority: str) -> bytes:
    key = x509.load_pem_x509_certificate(base64.b64decode(authority)).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def is_trusted(plane: ControlPlane) -> bool:
    """Return whether both configurations have the authority that signed the certificate. cainjector
    leaves those in a bundle that were there before.
    """
    authority = x509.load_pem_x509_certificate(base64.b64decode(authority_of(plane)))
    return all(
        bundle and authority in x509.load_pem_x509_certificates(base64.b64decode(bundle))
        for bundle in bundles(plane)
    )


def authority_of(plane: ControlPlane) -> str:
    return str(secret(plane, CERTIFICATE)["ca.crt"])


def has_identity(plane: ControlPlane, worker: Json) -> bool:
    namespace = worker["metadata"]["namespace"]
    stored = plane.api.create(PODS, worker, namespace, dryRun="All")
    return names.LABEL_HOST_INDEX in stored["metadata"]["labels"]
