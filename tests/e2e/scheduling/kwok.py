"""KWOK for a test control plane: it acts as the kubelet of every Node with its label, and reports
each pod there as running.
"""

from typing import Final

from tests.e2e import build, needs
from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS
from tests.e2e.process import Peer, free_port, says_ready

LABEL: Final = {"type": "kwok"}
"""Of the Nodes that are KWOK's."""

USER: Final = "system:serviceaccount:kube-system:kwok-controller"
"""The name under which it asks; it may do everything here."""


class Kwok(Peer):
    """Runs on entry, ends on exit."""

    def __init__(self, plane: ControlPlane) -> None:
        needs.KWOK.ask()
        port = free_port()
        (name, value), *_ = LABEL.items()
        program = plane.program(
            build.KWOK,
            [
                f"--config={build.manifests(build.KWOK)}",
                f"--kubeconfig={plane.kubeconfig(USER, [MASTERS])}",
                f"--manage-nodes-with-label-selector={name}={value}",
                "--node-lease-duration-seconds=40",
                f"--server-address=127.0.0.1:{port}",
            ],
        )
        super().__init__(program, lambda: says_ready(port))
