"""`helm test --logs`, by the real Helm: the check runs with the account and the rights that its
hooks create; all of them are removed, and its log is printed.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.e2e.api import CLUSTER_ROLE_BINDINGS, NODES, PODS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import Deployed
from tests.e2e.installation import NAMESPACE, run_helm, token_kubeconfig, try_helm
from tests.e2e.scheduling.nodes import bind
from tests.e2e.stub_webhook import certificate
from tests.e2e.waiting import until
from tests.harness.http_server import Handler, serving
from tests.manifests.render import CHART
from tests.pages.blocks import kubectl_words

pytestmark = pytest.mark.e2e

ACCOUNT = "ray-webhook-test"
NODE = "node-of-the-test"


@contextmanager
def node(plane: ControlPlane) -> Iterator[list[str]]:
    """Create a Node, and yield the list whose last text it serves as the log of a pod."""
    printed = [""]

    class Kubelet(Handler):
        def respond(self) -> None:
            self.send(200, printed[-1].encode(), Content_Type="text/plain")

    file = plane.folder / "kubelet.pem"
    certificate(file)
    with serving(Kubelet, file) as port:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        plane.api.create(NODES, {"metadata": {"name": NODE}, "status": status})
        yield printed


def helm_test(
    plane: ControlPlane, program: str, printed: list[str]
) -> subprocess.CompletedProcess[str]:
    """Return how `helm test --logs` ends; what its pod prints is added to `printed`."""
    words = ("test", "ray-webhook", "--logs", "--timeout", "3m")
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(try_helm, plane, *words, program=program)
        (pod,) = until(
            lambda: [
                each
                for each in plane.api.list(PODS, NAMESPACE)
                if each["metadata"]["name"] == ACCOUNT and not each["spec"].get("nodeName")
            ],
            "the pod of the test",
        )
        bind(plane.api, ACCOUNT, NAMESPACE, NODE)
        kubeconfig = plane.folder / "kubeconfig-of-the-test"
        token_kubeconfig(plane, kubeconfig, pod["spec"]["serviceAccountName"])
        arguments: Sequence[str] = pod["spec"]["containers"][0]["args"]
        done = subprocess.run(
            [sys.executable, "-m", "webhook.cli.main", *arguments, "--kubeconfig", str(kubeconfig)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        printed.append(done.stdout + done.stderr)
        phase = "Failed" if done.returncode else "Succeeded"
        plane.api.set_status(PODS, ACCOUNT, {"phase": phase}, NAMESPACE)
        return ended.result()


def test_helm_test_tells_whether_the_installation_works_and_leaves_no_rights(
    plane: ControlPlane, program: str
) -> None:
    run_helm(plane, "install", "ray-webhook", str(CHART), "--create-namespace")
    with node(plane) as printed:
        with Deployed(plane):
            for _ in range(2):
                done = helm_test(plane, program, printed)
                assert done.returncode == 0, done.stderr + printed[-1]
                assert "✗" not in printed[-1]
                assert not re.search(r"^\s*\?", printed[-1], re.MULTILINE), printed
                assert printed[-1] in done.stdout
                names = {each["metadata"]["name"] for each in plane.api.list(CLUSTER_ROLE_BINDINGS)}
                assert ACCOUNT not in names
        done = helm_test(plane, program, printed)
        assert done.returncode != 0
        assert "✗" in printed[-1]
        logs = plane.run_kubectl(*kubectl_words("kubectl -n ray-webhook logs"))
        first = printed[-1].splitlines()[0]
        assert f"[pod/{ACCOUNT}/check] {first}\n" in logs
