"""`helm test --logs`, by the real Helm: the check runs with the account and the rights that its
hooks create; all of them are removed, and its log is printed.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self

import pytest

from tests.e2e.api import CLUSTER_ROLE_BINDINGS, NODES, PODS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import Deployed
from tests.e2e.installation import NAMESPACE, run_helm, token_kubeconfig
from tests.e2e.scheduling.nodes import bind
from tests.e2e.stub_webhook import certificate
from tests.e2e.waiting import until
from tests.harness.http_server import Handler, serving
from tests.manifests.render import CHART
from tests.pages.blocks import kubectl_words

pytestmark = pytest.mark.e2e

ACCOUNT = "ray-webhook-test"
NODE = "node-of-the-test"


class HelmTest:
    """`helm test --logs`, with a cluster that runs the one pod it waits for, and serves its log."""

    def __init__(self, plane: ControlPlane, program: str) -> None:
        self._plane = plane
        self._program = program
        self._printed = ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        test = self

        class Kubelet(Handler):
            def respond(self) -> None:
                self.send(200, test._printed.encode(), Content_Type="text/plain")

        file = self._plane.folder / "kubelet.pem"
        certificate(file)
        port = self._stack.enter_context(serving(Kubelet, file))
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        self._plane.api.create(NODES, {"metadata": {"name": NODE}, "status": status})
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self) -> tuple[subprocess.CompletedProcess[str], str]:
        """Run it; return how it ends, and what its pod has printed."""
        words = ("test", "ray-webhook", "--logs", "--timeout", "3m")
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(run_helm, self._plane, *words, program=self._program)
            self._run_its_pod()
            return ended.result(), self._printed

    def _run_its_pod(self) -> None:
        (pod,) = until(
            lambda: [
                each
                for each in self._plane.api.list(PODS, NAMESPACE)
                if each["metadata"]["name"] == ACCOUNT and not each["spec"].get("nodeName")
            ],
            "the pod of the test",
        )
        bind(self._plane.api, ACCOUNT, NAMESPACE, NODE)
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
        self._printed = done.stdout + done.stderr
        phase = "Failed" if done.returncode else "Succeeded"
        self._plane.api.set_status(PODS, ACCOUNT, {"phase": phase}, NAMESPACE)


def test_helm_test_tells_whether_the_installation_works_and_leaves_no_rights(
    plane: ControlPlane, program: str
) -> None:
    installed = run_helm(plane, "install", "ray-webhook", str(CHART), "--create-namespace")
    assert installed.returncode == 0, installed.stderr
    with HelmTest(plane, program) as test:
        with Deployed(plane):
            for _ in range(2):
                done, printed = test()
                assert done.returncode == 0, done.stderr + printed
                assert "✗" not in printed
                assert not re.search(r"^\s*\?", printed, re.MULTILINE), printed
                assert printed in done.stdout
                names = {each["metadata"]["name"] for each in plane.api.list(CLUSTER_ROLE_BINDINGS)}
                assert ACCOUNT not in names
        done, printed = test()
        assert done.returncode != 0
        assert "✗" in printed
        logs = plane.kubectl(*kubectl_words("kubectl -n ray-webhook logs"))
        assert logs.returncode == 0, logs.stderr
        first = printed.splitlines()[0]
        assert f"[pod/{ACCOUNT}/check] {first}\n" in logs.stdout
