"""A small client of the Kubernetes API: JSON in, JSON out, and a Status as an exception."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from tests.e2e.process import NO_ANSWER
from tests.e2e.versions import NEWEST, chosen

Json = dict[str, Any]
Objects = list[Json]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""How kubectl and Helm ask for all kinds at once."""


@dataclass(frozen=True)
class Resource:
    """Where objects of a kind live; `v1` is the core group."""

    group_version: str
    plural: str
    namespaced: bool = True

    def path(
        self, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        root = "api" if "/" not in self.group_version else "apis"
        scope = ["namespaces", namespace] if self.namespaced and namespace else []
        parts = [root, self.group_version, *scope, self.plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)


NODES = Resource("v1", "nodes", namespaced=False)
NAMESPACES = Resource("v1", "namespaces", namespaced=False)
PODS = Resource("v1", "pods")
SERVICES = Resource("v1", "services")
SECRETS = Resource("v1", "secrets")
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts")
EVENTS = Resource("events.k8s.io/v1", "events")
CONFIG_MAPS = Resource("v1", "configmaps")
LIMIT_RANGES = Resource("v1", "limitranges")
QUOTAS = Resource("v1", "resourcequotas")
DEPLOYMENTS = Resource("apps/v1", "deployments")
LEASES = Resource("coordination.k8s.io/v1", "leases")
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False
)
CRDS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
RAY_CLUSTERS = Resource("ray.io/v1", "rayclusters")
RAY_JOBS = Resource("ray.io/v1", "rayjobs")
RAY_SERVICES = Resource("ray.io/v1", "rayservices")
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
POD_GROUP_VERSION = f"scheduling.k8s.io/{chosen().pod_groups or NEWEST.pod_groups}"
POD_GROUPS = Resource(POD_GROUP_VERSION, "podgroups")
WORKLOADS = Resource(POD_GROUP_VERSION, "workloads")
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False
)


@dataclass(frozen=True)
class Answer:
    """What the API server said: the decoded body (empty unless JSON) and its warnings, unquoted."""

    code: int
    body: Json
    warnings: tuple[str, ...] = ()


class ApiError(Exception):
    """A refusal. `status` is the Status object of the answer; denials of webhooks are in its
    message and details.
    """

    def __init__(self, code: int, status: Json) -> None:
        super().__init__(f"{code} {status.get('reason', '')}: {status.get('message', '')}")
        self.code = code
        self.status = status


class Api:
    """Talks to one API server as one user. Each call is a connection of its own."""

    def __init__(self, server: str, context: ssl.SSLContext, timeout: float = 120) -> None:
        self.server = server
        self._timeout = timeout
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))

    @classmethod
    def of_kubeconfig(cls, path: Path) -> Self:
        config = json.loads(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        return cls(cluster["server"], context)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return self.request("GET", resource.path(namespace, name)).body

    def list(self, resource: Resource, namespace: str | None = None, selector: str = "") -> Objects:
        query = {"labelSelector": selector} if selector else {}
        items: Objects = self.request("GET", resource.path(namespace), query=query).body["items"]
        return items

    def create(
        self, resource: Resource, body: Json | bytes, namespace: str | None = None, **query: str
    ) -> Json:
        """The object as it was stored; `dryRun="All"` stores nothing. Bytes are YAML."""
        return self.request("POST", resource.path(namespace), body, query=query).body

    def refusal(self, resource: Resource, body: Json, namespace: str) -> str:
        """Return why an object is refused, by a dry run, and nothing when it is not."""
        try:
            self.create(resource, body, namespace, dryRun="All")
        except ApiError as error:
            return str(error)
        return ""

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Json | Objects,
        namespace: str | None = None,
        kind: str = MERGE_PATCH,
    ) -> Json:
        return self.request("PATCH", resource.path(namespace, name), body, kind).body

    def set_status(
        self, resource: Resource, name: str, status: Json, namespace: str | None = None
    ) -> None:
        path = resource.path(namespace, name, "status")
        self.request("PATCH", path, {"status": status}, MERGE_PATCH)

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, grace: int | None = None
    ) -> Json:
        """The object as it was, or a Status. `grace` 0 removes a pod at once, kubelet or not."""
        return self.request("DELETE", resource.path(namespace, name), _delete_options(grace)).body

    def delete_all(self, resource: Resource, namespace: str, selector: str = "") -> None:
        query = {"labelSelector": selector} if selector else {}
        self.request("DELETE", resource.path(namespace), _delete_options(0), query=query)

    def ok(self, path: str) -> bool:
        """Whether a probe such as `/readyz` answers 200; False also while nothing listens."""
        try:
            return self.request("GET", path).code == 200
        except (ApiError, *NO_ANSWER):
            return False

    def discovered(self) -> set[str]:
        """The paths of resources that clients find: each of a CRD appears on its own."""
        groups = self.request("GET", "/apis", accept=DISCOVERY).body["items"]
        return {
            f"/apis/{group['metadata']['name']}/{version['version']}/{found['resource']}"
            for group in groups
            for version in group["versions"]
            for found in version["resources"]
        }

    def request(
        self,
        method: str,
        path: str,
        body: Json | Objects | bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> Answer:
        """Any call. Waits while the API server reads the objects of a changed CRD. Raises ApiError
        for an answer of 400 or more, URLError when there is none.
        """
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept}
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/yaml"
        elif body is not None:
            headers["Content-Type"] = content_type
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = Request(url, data, headers, method=method)  # noqa: S310
        deadline = monotonic() + 60
        while True:
            try:
                with self._opener.open(request, timeout=self._timeout) as answer:
                    warnings = map(_warning, answer.headers.get_all("Warning", []))
                    return Answer(answer.status, _decode(answer.read()), tuple(warnings))
            except HTTPError as error:
                with error:
                    failure = ApiError(error.code, _decode(error.read()))
            if "storage is (re)initializing" not in str(failure) or monotonic() > deadline:
                raise failure
            sleep(0.05)


def _delete_options(grace: int | None) -> Json | None:
    if grace is None:
        return None
    return {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace}


def _decode(content: bytes) -> Json:
    try:
        decoded = json.loads(content)
    except ValueError:
        return {"message": content.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {}


def _warning(header: str) -> str:
    """The text of a `299 - "text"` header."""
    return header.split('"', 1)[-1].rstrip('"').replace('\\"', '"')
