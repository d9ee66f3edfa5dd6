"""`helm test --logs`, by the real Helm: the check runs with the account and the rights that its
hooks create; all of them are removed, and its log is printed.
"""

import re
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

import pytest

from tests.e2e import build, needs
from tests.e2e.api import MERGE_PATCH, NODES, PODS, Resource
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import ROUTING, Deployed
from tests.e2e.helm import helm
from tests.e2e.installation import NAMESPACE, token_kubeconfig
from tests.e2e.stub_webhook import HOUR, certificate
from tests.e2e.waiting import until
from tests.manifests.render import CHART
from tests.pages.blocks import kubectl_words

pytestmark = pytest.mark.e2e

ACCOUNT = "ray-webhook-test"
NODE = "node-of-the-test"
BINDINGS = Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)


class HelmTest:
    """`helm test --logs`, with a cluster that runs the one pod it waits for, and serves its log."""

    def __init__(self, plane: ControlPlane, program: str) -> None:
        self._plane = plane
        self._program = program
        self._printed = ""

    def __enter__(self) -> Self:
        test = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(test._printed.encode())

            def log_message(self, *_: object) -> None:
                return

        file = self._plane.folder / "kubelet.pem"
        certificate(file, "127.0.0.1", HOUR)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.server_port}},
        }
        self._plane.api.create(NODES, {"metadata": {"name": NODE}, "status": status})
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __call__(self) -> tuple[subprocess.CompletedProcess[str], str]:
        """Run it; return how it ends, and what its pod has printed."""
        words = ("test", "ray-webhook", "--logs", "--timeout", "3m")
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(helm, self._plane, *words, program=self._program)
            self._run_its_pod()
            return ended.result(), self._printed

    def _run_its_pod(self) -> None:
        """Do what scheduler and kubelet would: run what the pod says, as its account."""
        (pod,) = until(
            lambda: [
                each
                for each in self._plane.api.list(PODS, NAMESPACE)
                if each["metadata"]["name"] == ACCOUNT and not each["spec"].get("nodeName")
            ],
            "the pod of the test",
        )
        path = PODS.path(NAMESPACE, ACCOUNT, "binding")
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        self._plane.api.request("POST", path, {"metadata": {"name": ACCOUNT}, "target": target})
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
        path = PODS.path(NAMESPACE, ACCOUNT, "status")
        self._plane.api.request("PATCH", path, {"status": {"phase": phase}}, MERGE_PATCH)


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, which reaches Services."""
    with ControlPlane(api_server_flags=[ROUTING]) as found:
        yield found


@pytest.mark.parametrize("program", [build.HELM, build.HELM_4])
def test_helm_test_tells_whether_the_installation_works_and_leaves_no_rights(
    plane: ControlPlane, program: str
) -> None:
    if program == build.HELM_4:
        needs.HELM_4.ask()
    installed = helm(plane, "install", "ray-webhook", str(CHART), "--create-namespace")
    assert installed.returncode == 0, installed.stderr
    with HelmTest(plane, program) as test:
        with Deployed(plane):
            for _ in range(2):
                done, printed = test()
                assert done.returncode == 0, done.stderr + printed
                assert "✗" not in printed
                assert not re.search(r"^\s*\?", printed, re.MULTILINE), printed
                assert printed in done.stdout
                names = {each["metadata"]["name"] for each in plane.api.list(BINDINGS)}
                assert ACCOUNT not in names
        done, printed = test()
        assert done.returncode != 0
        assert "✗" in printed
        logs = plane.kubectl(*kubectl_words("kubectl -n ray-webhook logs"))
        assert logs.returncode == 0, logs.stderr
        first = printed.splitlines()[0]
        assert f"[pod/{ACCOUNT}/check] {first}\n" in logs.stdout
