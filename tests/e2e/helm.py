"""The real helm, with the API server of a control plane."""

import os
import subprocess

from tests.e2e import build
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE


def helm(plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    """Run helm in the namespace of the webhook."""
    command = [str(build.binary("helm")), *words, "--namespace", NAMESPACE]
    environment = {**os.environ, "KUBECONFIG": str(plane.admin_kubeconfig)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
