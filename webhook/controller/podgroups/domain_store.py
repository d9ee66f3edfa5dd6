"""ComputeDomains in the API server, as defined by the CRD of NVIDIA's DRA driver."""

from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct, field

from webhook.api import names
from webhook.api.objects import ObjectMeta, ResourceClaim
from webhook.controller.podgroups.lifecycle import Action, Create, Delete
from webhook.controller.podgroups.podgroup_api import PodGroupApi, ReadWorkload, metadata
from webhook.controller.podgroups.podgroup_reconciler import Subject
from webhook.controller.podgroups.podgroup_store import PodGroupStore, Selector
from webhook.controller.podgroups.wanted_domains import desired_domains
from webhook.groups.group_config import RayClusterConfig
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import Page, listed, read_pages

_SECONDS: Final = 10.0
_PAGE_ITEMS: Final = 500
_ENDED: Final = ("Succeeded", "Failed")


class _Meta(ObjectMeta, rename="camel", frozen=True):
    resource_version: str = ""


class _Spec(Struct, rename="camel"):
    resource_claims: list[ResourceClaim] | None = None


class _Status(Struct):
    phase: str = ""


class _Pod(Struct):
    """A pod: the templates of its claims, and whether it has ended."""

    metadata: _Meta
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)

    def templates(self) -> set[str]:
        """Return the templates of the claims, none if the pod has ended."""
        claims = () if self.status.phase in _ENDED else self.spec.resource_claims or ()
        return {each.resource_claim_template_name or "" for each in claims}


class DomainApi(PodGroupApi, frozen=True, gc=False):
    """The API of ComputeDomains. Their spec is immutable."""

    def path(self, resource: str, namespace: str = "", name: str = "") -> str:
        """Return the path of an object or a collection, in all namespaces if none is given."""
        del resource
        place = f"/namespaces/{namespace}" if namespace else ""
        path = f"/apis/{names.COMPUTE_DOMAIN_GROUP}/{self.version}{place}/computedomains"
        return f"{path}/{name}" if name else path

    def body(self, facts: RayClusterConfig, creation: Create) -> dict[str, Any]:
        """Return the object, as NVIDIA recommends without a number of nodes: a domain grows."""
        name = creation.wanted.name
        return {
            "apiVersion": f"{names.COMPUTE_DOMAIN_GROUP}/{self.version}",
            "kind": names.COMPUTE_DOMAIN_KIND,
            "metadata": metadata(facts, name),
            "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
        }


class DomainStore(PodGroupStore):
    """Lists, creates and deletes ComputeDomains."""

    def __init__(self, api: Api, version: str) -> None:
        super().__init__(api, DomainApi(version, resizable=False))

    async def possible(self, facts: RayClusterConfig, actions: list[Action]) -> list[Action]:
        """Return the actions without deletions of ComputeDomains in use: a deletion would stop
        their pods at once, even while they drain.
        """
        if not any(isinstance(action, Delete) for action in actions):
            return actions
        path = f"/api/v1/namespaces/{quote(facts.namespace)}/pods"
        pods, _ = await read_pages(
            lambda page: self._api.get(path, page, _SECONDS),
            lambda body: listed(body, Page[_Pod]),
            [("labelSelector", f"{names.LABEL_CLUSTER}={facts.name}")],
            _PAGE_ITEMS,
        )
        used = {template for pod in pods for template in pod.templates()}
        return [
            action
            for action in actions
            if not isinstance(action, Delete) or action.seen.identity.name not in used
        ]

    async def _workloads(self, namespace: str, selector: Selector) -> list[ReadWorkload]:
        """Return an empty list: ComputeDomains have no Workload."""
        del namespace, selector
        return []


COMPUTE_DOMAINS: Final = Subject(
    "ComputeDomains", lambda facts: bool(facts.domains.unit), desired_domains, DomainStore
)
