"""The real Helm 3 and Helm 4, with the API server of a control plane."""

import os
import subprocess

from tests.e2e import build
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE
from tests.manifests.render import REGISTRY


def helm(
    plane: ControlPlane, *words: str, program: str = build.HELM
) -> subprocess.CompletedProcess[str]:
    command = [str(build.binary(program)), *words, "--namespace", NAMESPACE]
    if words[0] in {"install", "upgrade"}:
        command += ["--set", f"image.registry={REGISTRY}"]
    environment = {**os.environ, "KUBECONFIG": str(plane.admin_kubeconfig)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
