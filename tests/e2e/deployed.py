"""A Deployment of the webhook without a kubelet: its replicas are processes, started from the
stored object and marked ready.

API servers reach them through their Service, so the certificate and the `caBundle` are those of the
installation. The control plane must route Services to endpoints itself (`ROUTING`).
"""

import base64
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Self

from tests.e2e.api import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    SECRETS,
    SERVICES,
    ApiError,
    Json,
    Resource,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE, WEBHOOK, token_kubeconfig
from tests.e2e.process import NO_ANSWER, Peer, free_port, says_ready
from tests.e2e.versions import chosen, minor
from tests.e2e.waiting import Repeated, until
from tests.manifests.render import environment

ROUTING: Final = "--enable-aggregator-routing=true"
"""The flag of an API server that calls endpoints in place of the address of a Service."""

ENDPOINT_SLICES: Final = Resource("discovery.k8s.io/v1", "endpointslices")
ENDPOINTS: Final = Resource("v1", "endpoints")
CERTIFICATE: Final = "ray-webhook-tls"


class Deployed:
    """Runs between entry and exit. On entry it waits until the Deployment is stored, and what its
    pods mount. A Secret that changes is in their files `mount_seconds` after it was seen so, as
    with kubelet, and after `mountable`.
    """

    def __init__(
        self,
        plane: ControlPlane,
        mount_seconds: float = 0.2,
        mountable: Callable[[], bool] = lambda: True,
    ) -> None:
        self.addresses: list[tuple[str, int]] = []
        """Where its processes answer reviews."""
        self._mount_seconds = mount_seconds
        self._mountable = mountable
        self._plane = plane
        self._folder = plane.folder / f"deployed-{free_port()}"
        self._folder.mkdir()
        self._stack = ExitStack()
        self._mounted: Json = {}
        self._seen: Json = {}

    def __enter__(self) -> Self:
        deployment = until(self._stored, "the Deployment is stored")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        with ExitStack() as stack:
            if any(each["name"] == "tls" for each in volumes):
                data = until(self._pair, f"the Secret {CERTIFICATE}")
                self._mount(data)
                stack.enter_context(Repeated(self._keep_mounted, self._mount_seconds))
            token_kubeconfig(self._plane, self._folder / "kubeconfig")
            replicas = deployment["spec"]["replicas"]
            for number in range(replicas):
                self._run(stack, number, deployment)
            if minor(chosen().kubernetes) < 34:  # it looks pods of a webhook up by Endpoints
                self._write_endpoints()
            ready = dict.fromkeys(
                ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas
            )
            status = {"observedGeneration": 1, **ready}
            self._plane.api.set_status(DEPLOYMENTS, WEBHOOK, status, NAMESPACE)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _stored(self) -> Json:
        try:
            return self._plane.api.get(DEPLOYMENTS, WEBHOOK, NAMESPACE)
        except ApiError:
            return {}

    def _run(self, stack: ExitStack, number: int, deployment: Json) -> None:
        port, admin = free_port(), free_port()
        address = own_address()
        command = [
            *(sys.executable, "-m", "webhook.cli.main", "serve"),
            *(f"--host={address}", f"--port={port}", f"--admin-port={admin}"),
            f"--kubeconfig={self._folder / 'kubeconfig'}",
            f"--installation.namespace={NAMESPACE}",  # a pod finds both in its own files
            "--serving.drain-seconds=0",
        ]
        program = self._plane.process(f"deployed-{number}", command, self._environment(deployment))
        stack.enter_context(Peer(program, lambda: says_ready(admin, address)))
        self.addresses.append((address, port))
        name = f"{WEBHOOK}-{number}"
        template = deployment["spec"]["template"]
        pod = {**template, "metadata": {**template["metadata"], "name": name}}
        self._plane.api.create(PODS, pod, NAMESPACE)
        status = {"phase": "Running", "podIP": address}
        self._plane.api.set_status(PODS, name, status, NAMESPACE)
        self._plane.api.create(
            ENDPOINT_SLICES,
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": WEBHOOK}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                "ports": [{"name": self._port_name(), "port": port, "protocol": "TCP"}],
            },
            NAMESPACE,
        )

    def _write_endpoints(self) -> None:
        """Tells an older API server where the Service leads."""
        subsets = [
            {
                "addresses": [{"ip": address}],
                "ports": [{"name": self._port_name(), "port": port, "protocol": "TCP"}],
            }
            for address, port in self.addresses
        ]
        body = {"metadata": {"name": WEBHOOK}, "subsets": subsets}
        self._plane.api.create(ENDPOINTS, body, NAMESPACE)

    def _environment(self, deployment: Json) -> dict[str, str]:
        maps = self._plane.api.list(CONFIG_MAPS, NAMESPACE)
        stored = [{**deployment, "kind": "Deployment"}]
        stored += [{**each, "kind": "ConfigMap"} for each in maps]
        return {
            **environment(stored, WEBHOOK, self._folder),
            "RAY_WEBHOOK_TLS__CERT_DIR": str(self._folder),
        }

    def _port_name(self) -> str:
        ports = self._plane.api.get(SERVICES, WEBHOOK, NAMESPACE)["spec"]["ports"]
        (name,) = (each.get("name", "") for each in ports if each["port"] == 443)
        return str(name)

    def _pair(self) -> Json:
        """What the pods mount of the Secret as it is now; nothing when that is not there."""
        try:
            data = self._plane.api.get(SECRETS, CERTIFICATE, NAMESPACE).get("data") or {}
        except (ApiError, *NO_ANSWER):
            return {}
        names = ("tls.crt", "tls.key")
        return {name: data[name] for name in names} if {*names} <= data.keys() else {}

    def _mount(self, pair: Json) -> None:
        """Replaces files, which a process that starts may read at any time."""
        if pair == self._mounted:
            return
        for name, content in pair.items():
            new = self._folder / f"{name}.new"
            new.write_bytes(base64.b64decode(content))
            new.replace(self._folder / name)
        self._mounted = pair

    def _keep_mounted(self) -> None:
        """Mounts what was seen, and could be mounted, a round before."""
        pair = self._pair()
        if pair == self._seen:
            self._mount(pair)
        self._seen = pair if self._is_mountable() else {}

    def _is_mountable(self) -> bool:
        try:
            return self._mountable()
        except (ApiError, *NO_ANSWER, KeyError):  # it is being made
            return False


def own_address() -> str:
    """An address of this machine that is not loopback, as endpoints have to be. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
