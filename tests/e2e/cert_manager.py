"""cert-manager for a test control plane: its controllers for Certificates, and its cainjector."""

from datetime import UTC, datetime
from typing import Final, Self

import yaml

from tests.e2e import build, needs
from tests.e2e.api import Json, Resource
from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS
from tests.e2e.process import Peer, free_port, says_ready
from tests.e2e.waiting import until

VERSION: Final = "cert-manager.io/v1"
CERTIFICATES: Final = Resource(VERSION, "certificates")
USER: Final = "system:serviceaccount:cert-manager:cert-manager"
"""The name under which it asks; it may do everything here."""


class CertManager(Peer):
    """Installed and running on entry, ended on exit."""

    def __init__(self, plane: ControlPlane) -> None:
        needs.OTHERS.ask()
        self._plane, self._api = plane, plane.api
        health_port = free_port()
        kubeconfig = plane.kubeconfig(USER, [MASTERS, "system:serviceaccounts"])
        program = plane.program(
            build.CERT_MANAGER, [f"-config={kubeconfig}", f"-health=127.0.0.1:{health_port}"]
        )
        super().__init__(program, lambda: says_ready(health_port))

    def __enter__(self) -> Self:
        text = build.manifests(build.CERT_MANAGER).read_text()
        self._plane.define(filter(None, yaml.load_all(text, yaml.CSafeLoader)))
        return super().__enter__()

    def renew(self, name: str, namespace: str) -> None:
        """Returns after the last write of cert-manager about the renewal."""

        def status() -> Json:
            found: Json = self._api.get(CERTIFICATES, name, namespace).get("status", {})
            return found if "revision" in found else {}

        issued = until(status, f"{name} is issued")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        asked = {
            "type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered", "lastTransitionTime": now,
        }  # fmt: skip
        conditions = [each for each in issued["conditions"] if each["type"] != "Issuing"]
        self._api.set_status(CERTIFICATES, name, {"conditions": [*conditions, asked]}, namespace)
        until(lambda: status()["revision"] > issued["revision"], f"{name} is renewed")
