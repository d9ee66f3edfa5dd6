"""Parts of NVIDIA's DRA driver that the tests of ComputeDomains need: its CRD, and a controller
that creates the ResourceClaimTemplate of each ComputeDomain.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import yaml

from tests.e2e.api import CRDS, Api, ApiError, Json, Resource
from tests.e2e.control_plane import ControlPlane
from tests.e2e.waiting import repeated, until

COMPUTE_DOMAINS: Final = Resource("resource.nvidia.com/v1beta1", "computedomains")
CLAIM_TEMPLATES: Final = Resource("resource.k8s.io/v1", "resourceclaimtemplates")

_CRD: Final = Path(__file__).parent / "nvidia" / "computedomains.yaml"
_FINALIZER: Final = "resource.nvidia.com/computeDomain"
_LABEL: Final = "resource.nvidia.com/computeDomain"


class Driver:
    """Serves the CRD on entry, and acts on ComputeDomains of all namespaces until exit.

    It makes the template of the name that a ComputeDomain has, with its uid in it. A name that
    exists already is refused, again and again. A ComputeDomain that is deleted takes its template
    with it at once, whatever pods run.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._api = plane.api
        self._looking = repeated(self._look, 0.1)
        self.refused: set[str] = set()
        """Names of ComputeDomains whose template belongs to another one."""

    def __enter__(self) -> Self:
        self._api.create(CRDS, yaml.safe_load(_CRD.read_text()))
        until(
            lambda: self._api.ok("/apis/resource.nvidia.com/v1beta1/computedomains"), "it is served"
        )
        self._looking.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._looking.__exit__(None, None, None)

    def _look(self) -> None:
        for domain in self._api.list(COMPUTE_DOMAINS):
            with suppress(ApiError):  # it has changed since: the next look
                self._reconcile(domain)

    def _reconcile(self, domain: Json) -> None:
        meta = domain["metadata"]
        name, namespace = meta["name"], meta["namespace"]
        if "deletionTimestamp" in meta:
            for template in self._api.list(CLAIM_TEMPLATES, namespace, f"{_LABEL}={meta['uid']}"):
                self._api.delete(CLAIM_TEMPLATES, template["metadata"]["name"], namespace)
            self._api.patch(COMPUTE_DOMAINS, name, {"metadata": {"finalizers": None}}, namespace)
            return
        if _FINALIZER not in meta.get("finalizers", []):
            change = {"metadata": {"finalizers": [_FINALIZER]}}
            self._api.patch(COMPUTE_DOMAINS, name, change, namespace)
        self._make_template(domain, domain["spec"]["channel"]["resourceClaimTemplate"]["name"])

    def _make_template(self, domain: Json, name: str) -> None:
        meta = domain["metadata"]
        known = self._api.list(CLAIM_TEMPLATES, meta["namespace"], f"{_LABEL}={meta['uid']}")
        if known:
            return
        request = {
            "name": "channel",
            "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"},
        }
        template = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "labels": {_LABEL: meta["uid"]}},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        try:
            self._api.create(CLAIM_TEMPLATES, template, meta["namespace"])
        except ApiError:
            self.refused.add(meta["name"])


def domains(api: Api, namespace: str) -> dict[str, str]:
    found = api.list(COMPUTE_DOMAINS, namespace)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


def template_domain(api: Api, namespace: str, name: str) -> str:
    found = api.list(CLAIM_TEMPLATES, namespace)
    return next(
        (each["metadata"]["labels"][_LABEL] for each in found if each["metadata"]["name"] == name),
        "",
    )


def claimed(pod: Json) -> list[str]:
    """Return the templates of the claims that a pod has in each of its containers."""
    templates = {
        each["name"]: each["resourceClaimTemplateName"]
        for each in pod["spec"].get("resourceClaims", [])
    }
    first, *_ = pod["spec"]["containers"]
    return [templates[each["name"]] for each in first["resources"].get("claims", [])]
