"""A component of the control plane other than the API server, as a process."""

import ssl
from collections.abc import Mapping, Sequence

from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane, pairs
from tests.e2e.credentials import MASTERS
from tests.e2e.process import Peer, free_port

COLLECTORS = ("garbage-collector-controller", "podgroup-protection-controller")
"""The controllers by which objects go after their owner, and PodGroups after their pods."""


class Component(Peer):
    """Runs on entry, ends on exit. `name` is a built program; it may do everything here."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        flags: Sequence[str],
        feature_gates: Mapping[str, bool],
    ) -> None:
        port = free_port()
        context = ssl.create_default_context(cafile=str(plane.credentials.ca))
        probe = Api(f"https://127.0.0.1:{port}", context, timeout=5)
        program = plane.program(
            name,
            [
                f"--kubeconfig={plane.kubeconfig(f'system:{name}', [MASTERS])}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={plane.credentials.server_certificate}",
                f"--tls-private-key-file={plane.credentials.server_key}",
                "--leader-elect=false",
                f"--feature-gates={pairs(feature_gates)}",
                *flags,
            ],
        )
        super().__init__(program, lambda: probe.ok("/healthz"))


def controllers(plane: ControlPlane) -> Component:
    flags = [f"--controllers={','.join(COLLECTORS)}", "--concurrent-gc-syncs=2"]
    return Component(plane, "kube-controller-manager", flags, plane.feature_gates)


def scheduler(plane: ControlPlane) -> Component:
    return Component(
        plane,
        "kube-scheduler",
        ["--authorization-always-allow-paths=/healthz"],
        plane.feature_gates,
    )
