"""The installation by `kubectl apply -k manifests` passes `ray-webhook check`;
`tests/e2e/test_cert_manager.py` installs `certs/overlay`.
"""

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import Deployed
from tests.e2e.installation import apply_kustomization, bundles
from tests.e2e.terminal import check
from tests.e2e.waiting import until
from tests.pages.blocks import kubectl_words

pytestmark = pytest.mark.e2e


def test_the_manifests_install_a_webhook_that_passes_the_check(plane: ControlPlane) -> None:
    apply_kustomization(plane, "manifests")
    with Deployed(plane):
        check(plane)
        apply_kustomization(plane, "manifests")
        check(plane)
        before = bundles(plane)
        words = kubectl_words("kubectl -n ray-webhook patch secret")
        assert plane.kubectl(*words).returncode == 0
        until(lambda: not ({""} | before) & bundles(plane), "there is another authority")
        until(lambda: len(bundles(plane)) == 1, "both configurations have it")
