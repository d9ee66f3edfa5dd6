"""`helm test`, by the real helm: the check runs with the account and the rights that its hooks
create, and all of them are removed.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.api import MERGE_PATCH, PODS, Resource
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import ROUTING, Deployed
from tests.e2e.helm import helm
from tests.e2e.installation import NAMESPACE, token_kubeconfig
from tests.e2e.waiting import until
from tests.manifests.render import CHART

pytestmark = pytest.mark.e2e

ACCOUNT = "ray-webhook-test"
BINDINGS = Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)


class HelmTest:
    """`helm test`, with a cluster that runs the one pod it waits for."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def __call__(self) -> tuple[int, str]:
        """Run it; return how it ends, and what its pod has printed."""
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(helm, self._plane, "test", "ray-webhook", "--timeout", "3m")
            printed = self._run_its_pod()
            return ended.result().returncode, printed

    def _run_its_pod(self) -> str:
        """Do what kubelet would: run what the pod says, as its account."""
        (pod,) = until(
            lambda: [
                each
                for each in self._plane.api.list(PODS, NAMESPACE)
                if each["metadata"]["name"] == ACCOUNT
                and not each["status"].get("containerStatuses")
            ],
            "the pod of the test",
        )
        kubeconfig = self._plane.folder / "kubeconfig-of-the-test"
        token_kubeconfig(self._plane, kubeconfig, pod["spec"]["serviceAccountName"])
        arguments: Sequence[str] = pod["spec"]["containers"][0]["args"]
        done = subprocess.run(
            [sys.executable, "-m", "webhook.cli.main", *arguments, "--kubeconfig", str(kubeconfig)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        phase = "Failed" if done.returncode else "Succeeded"
        path = PODS.path(NAMESPACE, ACCOUNT, "status")
        self._plane.api.request("PATCH", path, {"status": {"phase": phase}}, MERGE_PATCH)
        return done.stdout + done.stderr


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, which reaches Services."""
    with ControlPlane(api_server_flags=[ROUTING]) as found:
        yield found


def test_helm_test_tells_whether_the_installation_works_and_leaves_no_rights(
    plane: ControlPlane,
) -> None:
    installed = helm(plane, "install", "ray-webhook", str(CHART), "--create-namespace")
    assert installed.returncode == 0, installed.stderr
    test = HelmTest(plane)
    with Deployed(plane):
        status, printed = test()
        assert status == 0, printed
        assert "✗" not in printed
        assert not re.search(r"^\s*\?", printed, re.MULTILINE), printed
        assert ACCOUNT not in {each["metadata"]["name"] for each in plane.api.list(BINDINGS)}
    status, printed = test()
    assert status != 0
    assert "✗" in printed
