"""The webhook and the controller as processes, installed by the shipped manifests: only the address
of the webhook is changed.
"""

import base64
import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.api import PODS, RAY_CLUSTERS, Json, Resource
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import (
    CONTROLLER,
    NAMESPACE,
    REGISTRATIONS,
    WEBHOOK,
    Right,
    account_rights,
    applied,
    granted,
    rendered,
    token_kubeconfig,
)
from tests.e2e.process import Program, Replica, free_port, get, records
from tests.e2e.rays import slices
from tests.e2e.waiting import until
from tests.manifests.render import Object, environment
from webhook.cli.main import main

HOST = "127.0.0.1"


class Controller(Replica):
    """Started, ended and started again by stories, on the port it had; `settings` are the variables
    of the ConfigMap and more.
    """

    def __init__(self, plane: ControlPlane, folder: Path, settings: Mapping[str, str]) -> None:
        self._plane = plane
        self._settings = settings
        self._kubeconfig = folder / "controller-kubeconfig"
        port = free_port()
        command = [
            *(sys.executable, "-m", "webhook.cli.main", "controller"),
            *("--host=127.0.0.1", f"--port={port}", f"--kubeconfig={self._kubeconfig}"),
            f"--installation.namespace={NAMESPACE}",
        ]
        super().__init__(plane.process(f"controller-{port}", command, settings), port)

    @property
    def leads(self) -> bool:
        return self.metric("ray_webhook_leader") == 1

    def lines(self) -> list[Json]:
        return records(self.log)

    def start(self) -> None:
        token_kubeconfig(self._plane, self._kubeconfig, CONTROLLER)
        super().start()

    def sample(self, name: str, labels: Mapping[str, str]) -> float:
        """The value of one of its metrics with labels; 0 where there is none with these."""
        return next((each.value for each in self._samples(name) if each.labels == labels), 0.0)

    def problems(self, namespace: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each in self._samples("ray_webhook_problems"):
            if each.labels["raycluster_namespace"] == namespace:
                found.setdefault(each.labels["raycluster"], set()).add(each.labels["diagnosis"])
        return found

    def replica(self, settings: Mapping[str, str]) -> "Controller":
        """Another process of the same installation, with settings of its own, not started."""
        return Controller(self._plane, self._kubeconfig.parent, {**self._settings, **settings})

    def _samples(self, name: str) -> list[Sample]:
        families = text_string_to_metric_families(get(self._admin_port, "/metrics"))
        return [each for family in families for each in family.samples if each.name == name]


class Webhook(Replica):
    """Installed, running and asked by the API server on entry; ended and taken away on exit.

    It runs as the service account of the manifests, with the rights and the settings that these,
    and `values` of the chart, give it. Where values bring the Deployment of the controller, it runs
    beside it.
    """

    def __init__(self, plane: ControlPlane, values: Sequence[str] = ()) -> None:
        self._plane = plane
        self._port, admin_port = free_port(), free_port()
        self._folder = plane.folder / f"webhook-{self._port}"
        self._stack = ExitStack()
        self.manifests = rendered(values)
        self._folder.mkdir()
        super().__init__(self._process(self._port, admin_port), admin_port)
        deployed = {
            found["metadata"]["name"] for found in self.manifests if found["kind"] == "Deployment"
        }
        self._controller = (
            Controller(plane, self._folder, self._environment(CONTROLLER))
            if CONTROLLER in deployed
            else None
        )

    def __enter__(self) -> Self:
        assert main(["certs", "issue", "--dir", str(self._folder)]) == 0
        self._plane.namespace(NAMESPACE)
        registrations = [
            self._rewritten(found) for found in self.manifests if found["kind"] in REGISTRATIONS
        ]
        others = [found for found in self.manifests if found["kind"] not in REGISTRATIONS]
        with ExitStack() as stack:
            stack.enter_context(applied(self._plane, others))
            token_kubeconfig(self._plane, self._kubeconfig)
            until(self._is_authorized, "the authorizer knows the rights of the account")
            stack.callback(self.stop)
            self.start()
            if self._controller is not None:
                stack.callback(self._controller.stop)
                self._controller.start()
            stack.callback(self._await_silence)
            stack.enter_context(applied(self._plane, registrations))
            until(lambda: all(self._refuse("admission webhook")), "the webhook answers")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def controller(self) -> Controller:
        """The controller beside it; there has to be one."""
        assert self._controller is not None
        return self._controller

    @property
    def rights(self) -> set[Right]:
        return self.rights_of(WEBHOOK)

    def rights_of(self, account: str) -> set[Right]:
        return granted(self.manifests, account)

    def admissions(self, kind: str = "Pod") -> list[Json]:
        lines = records(self.log)
        return [each for each in lines if each.get("kind") == kind and not each.get("dry_run")]

    def _is_authorized(self) -> bool:
        accounts = [
            found["metadata"]["name"]
            for found in self.manifests
            if found["kind"] == "ServiceAccount"
        ]
        return all(
            self.rights_of(account) <= account_rights(self._plane, account) for account in accounts
        )

    def _process(self, port: int, admin_port: int) -> Program:
        command = [
            *(sys.executable, "-m", "webhook.cli.main", "serve"),
            *(f"--host={HOST}", f"--port={port}", f"--admin-port={admin_port}"),
            *(f"--kubeconfig={self._kubeconfig}", f"--tls.cert-dir={self._folder}"),
        ]
        return self._plane.process(f"webhook-{port}", command, self._environment(WEBHOOK))

    @property
    def _kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    def _environment(self, deployment: str) -> dict[str, str]:
        """The settings of the manifests, without a drain, in the namespace of a pod."""
        settings = environment(self.manifests, deployment, self._folder)
        ours = {"SERVING__DRAIN_SECONDS": "0", "INSTALLATION__NAMESPACE": NAMESPACE}
        return settings | {f"RAY_WEBHOOK_{name}": value for name, value in ours.items()}

    def _rewritten(self, registration: Object) -> Object:
        """The registration with a URL in place of the Service, which nothing here would route.
        Whatever changes objects fails closed, and all have time for a busy machine, so that no
        story goes on without them.
        """
        found = copy.deepcopy(registration)
        authority = base64.b64encode((self._folder / "ca.crt").read_bytes()).decode()
        for webhook in found["webhooks"]:
            url = f"https://{HOST}:{self._port}{webhook['clientConfig']['service']['path']}"
            webhook |= {"clientConfig": {"url": url, "caBundle": authority}, "timeoutSeconds": 10}
            if registration["kind"] == "MutatingWebhookConfiguration":
                webhook["failurePolicy"] = "Fail"
        return found

    def _refuse(self, words: str) -> list[bool]:
        """Whether the API server refuses each of the probes with these words."""
        ask = self._plane.api.refusal
        return [words in ask(resource, body(), "default") for resource, body in _PROBES]

    def _await_silence(self) -> None:  # a call that fails is one, too
        until(lambda: not any(self._refuse('.admission.ray.io"')), "the API server asks none")


def _stray_pod() -> Json:
    container = {"name": "ray", "image": "ray"}
    return {
        "metadata": {"name": "probe", "labels": {"ray.io/node-type": "worker"}},
        "spec": {"containers": [container]},
    }


def _double_group() -> Json:
    cluster = slices("probe", 1)
    cluster["spec"]["workerGroupSpecs"] *= 2
    return cluster


_PROBES: tuple[tuple[Resource, Callable[[], Json]], ...] = (
    (PODS, _stray_pod),
    (RAY_CLUSTERS, _double_group),
)
