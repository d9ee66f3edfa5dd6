"""A real Kubernetes control plane on loopback: etcd and kube-apiserver, with KubeRay's CRDs.

No kubelet runs, and neither scheduler nor controller manager unless a test starts it (`component`):
pods stay Pending, and garbage is not collected.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Final, Self

from tests.e2e import build
from tests.e2e.api import (
    CRDS,
    NAMESPACES,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Api,
    ApiError,
    Json,
)
from tests.e2e.credentials import MASTERS, Credentials
from tests.e2e.go import CannotBuildError
from tests.e2e.process import Program, accepts_connections, free_port
from tests.e2e.waiting import until
from webhook.cli.main import main

UNFINALIZED: Final[Json] = {"metadata": {"finalizers": None}}
"""The patch after which nobody keeps an object that was deleted."""


class ControlPlane:
    """Starts on entry, ends all its processes on exit. Logs, keys and data are in `folder`, removed
    after a clean exit.

    `feature_gates` and `runtime_config` go to the API server, e.g. {"GenericWorkload": True} and
    {"scheduling.k8s.io/v1beta1": True}; `api_server_flags` are appended to its own.
    """

    def __init__(
        self,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        api_server_flags: Sequence[str] = (),
    ) -> None:
        self.feature_gates = feature_gates or {}
        self._runtime_config = runtime_config or {}
        self._extra_flags = api_server_flags
        self._stack = ExitStack()
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        if missing := build.missing(("etcd", "kube-apiserver")):
            raise CannotBuildError(
                f"not built: {', '.join(missing)}; run `python -m tests.e2e.build`"
            )
        self.folder = Path(tempfile.mkdtemp(prefix="ray-webhook-e2e-"))
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            print(self.tail(), file=sys.stderr)  # before the programs write about their own end
        self._stack.close()
        if kind is None:
            shutil.rmtree(self.folder)

    def kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a user, such as `system:serviceaccount:NAMESPACE:NAME`."""
        return self.credentials.kubeconfig(self.server, user, groups)

    @property
    def environment(self) -> dict[str, str]:
        """The variables for clients such as kubectl and Helm, which keep what they discover."""
        kept = {"KUBECONFIG": str(self.admin_kubeconfig), "KUBECACHEDIR": str(self.folder / "kube")}
        return {**os.environ, **kept}

    def program(
        self, name: str, flags: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Program:
        """A built program, not started, whose log lies beside the others and is shown with them."""
        return self.process(name, [str(build.binary(name)), *flags], environment)

    def process(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Program:
        """Any program, not started, whose log lies beside the others and is shown with them."""
        program = Program(command, self.folder / f"{name}.log", environment)
        self._programs.append(program)
        return program

    def kubectl(
        self, *arguments: str, stdin: str = "", program: str = "kubectl"
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, or another `program` of its kind, as the administrator."""
        command = [str(build.binary(program)), *arguments]
        return subprocess.run(
            command, input=stdin, env=self.environment, capture_output=True, text=True, check=False,
            timeout=180,
        )  # fmt: skip

    def run_kubectl(self, *arguments: str, stdin: str = "", program: str = "kubectl") -> str:
        """Return what kubectl prints. Fails with its error."""
        done = self.kubectl(*arguments, stdin=stdin, program=program)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_command(self, *words: str) -> tuple[int, str]:
        """Return the exit code and the output of a command of ray-webhook, as the administrator."""
        with redirect_stdout(TextIOWrapper(BytesIO(), "utf-8")) as out:
            code = main([*words, "--kubeconfig", str(self.admin_kubeconfig)])
        out.seek(0)
        return code, out.read()

    def read_status(self, namespace: str) -> tuple[int, Json]:
        """Return the exit code and the report of `ray-webhook status` of a namespace."""
        code, text = self.run_command("status", "-n", namespace, "-o", "json")
        return code, json.loads(text)

    def check(self) -> None:
        """Run `ray-webhook check`. Fails with what it prints."""
        code, text = self.run_command("check", "--wait", "1m")
        assert code == 0, text

    def stop_api_server(self) -> None:
        """Ends the API server alone. etcd keeps the objects; clients see refused connections."""
        self._api_server.stop(grace=5)

    def start_api_server(self) -> None:
        """Starts the API server, on the port it had, and waits until it is ready."""
        self._api_server.start()
        self._api_server.wait_until(lambda: self.api.ok("/readyz"))

    def define(self, definitions: Iterable[Json | bytes]) -> None:
        """Creates CRDs, and waits until requests and clients find all that each of them defines."""
        for definition in definitions:
            _create_unless_present(self.api, CRDS.path(None), definition)
        specs = [each["spec"] for each in self.api.list(CRDS)]
        paths = {
            f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            for spec in specs
            for version in spec["versions"]
            if version["served"]
        }
        until(
            lambda: paths <= self.api.discovered() and all(map(self.api.ok, paths)),
            "the resources of the CRDs are found and served",
        )

    def namespace(self, name: str) -> str:
        """Creates a namespace, which nothing finalizes, with its default service account."""
        for resource, body, place in (
            (NAMESPACES, {"metadata": {"name": name}}, None),
            (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, name),
        ):
            _create_unless_present(self.api, resource.path(place), body)
        return name

    def delete_ray_cluster(self, name: str, namespace: str) -> None:
        """Deletes a RayCluster with its pods and services, as the garbage collector would."""
        selector = f"ray.io/cluster={name}"

        def has_no_pods() -> bool:  # a reconcile under way may still create some
            self.delete_pods(namespace, selector)
            return not self.api.list(PODS, namespace, selector)

        self.api.delete(RAY_CLUSTERS, name, namespace)
        until(has_no_pods, f"pods of RayCluster {namespace}/{name} are gone")
        for key in ("ray.io/cluster", "ray.io/headless-worker-svc"):
            self.api.delete_all(SERVICES, namespace, f"{key}={name}")

    def delete_ray_objects(self) -> None:
        """Removes all of them and all pods, at once, while no operator runs."""
        for resource in (RAY_JOBS, RAY_SERVICES, RAY_CLUSTERS, PODS):
            found = [each["metadata"] for each in self.api.list(resource)]
            for namespace in {each["namespace"] for each in found}:
                self.api.delete_all(resource, namespace)
            for each in found:
                if each.get("finalizers"):
                    self.api.patch(resource, each["name"], UNFINALIZED, each["namespace"])

    def delete_pods(self, namespace: str, selector: str = "") -> None:
        """Removes pods at once, as there is no kubelet to end them."""
        self.api.delete_all(PODS, namespace, selector)

    def tail(self, lines: int = 30) -> str:
        return "\n".join(program.tail(lines) for program in self._programs)

    def _start(self) -> None:
        self.credentials = Credentials(self.folder / "credentials")
        etcd_port, port = free_port(), free_port()
        self.server = f"https://127.0.0.1:{port}"
        self.admin_kubeconfig = self.kubeconfig("test-admin", [MASTERS])
        self.api = Api.of_kubeconfig(self.admin_kubeconfig)
        etcd = self.program("etcd", self._etcd_flags(etcd_port))
        self._api_server = self.program("kube-apiserver", self._api_server_flags(port, etcd_port))
        self._stack.enter_context(etcd)
        etcd.wait_until(lambda: accepts_connections(etcd_port))
        self._stack.callback(self.stop_api_server)
        self.start_api_server()
        self.namespace("default")
        self.define(build.definitions())

    def _etcd_flags(self, port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
        return [
            f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync", "--log-level=warn",
        ]  # fmt: skip

    def _api_server_flags(self, port: int, etcd_port: int) -> list[str]:
        keys = self.credentials
        flags = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={keys.server_certificate}",
            f"--tls-private-key-file={keys.server_key}",
            f"--client-ca-file={keys.ca}",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys.server_certificate}",
            f"--service-account-signing-key-file={keys.server_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
        ]
        if self.feature_gates:
            flags.append(f"--feature-gates={pairs(self.feature_gates)}")
        if self._runtime_config:
            flags.append(f"--runtime-config={pairs(self._runtime_config)}")
        return [*flags, *self._extra_flags]


def pairs(values: Mapping[str, bool]) -> str:
    return ",".join(f"{key}={str(value).lower()}" for key, value in values.items())


def _create_unless_present(api: Api, path: str, body: Json | bytes) -> None:
    """Repeats what a busy API server had no time for."""

    def is_present() -> bool:
        try:
            api.request("POST", path, body)
        except ApiError as error:
            reason: str = error.status.get("reason", "")
            if reason not in {"AlreadyExists", "Timeout"}:
                raise
            return reason != "Timeout"
        return True

    until(is_present, f"an object of {path} is created")
