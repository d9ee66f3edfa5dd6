"""ComputeDomains, as defined by the CRD of NVIDIA's DRA driver. Each has the lifecycle of a
PodGroup without a Workload and without a count.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from webhook.api import names
from webhook.cache.cluster_cache import PODS
from webhook.controller.podgroups.lifecycle import Action, Create, Delete
from webhook.controller.podgroups.podgroup_api import POD_GROUPS, Body, metadata
from webhook.controller.podgroups.podgroup_reconciler import Subject
from webhook.controller.podgroups.podgroup_store import PodGroupStore
from webhook.controller.requests import list_all
from webhook.groups.annotations import CLUSTER, WORKER_GROUP
from webhook.groups.compute_domains import domain_name
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import BASIC, Desired, Occupied, PodGroup


class DomainStore(PodGroupStore):
    """Lists, creates and deletes ComputeDomains, whose spec is immutable."""

    group = names.COMPUTE_DOMAIN_GROUP
    resources = (POD_GROUPS,)

    def path(self, resource: str, namespace: str) -> str:
        del resource
        return super().path("computedomains", namespace)

    def body(self, cluster_config: RayClusterConfig, creation: Create) -> Body:
        """Return the object, as NVIDIA recommends without a number of nodes: a domain grows."""
        name = creation.desired.name
        return {
            "apiVersion": f"{self.group}/{self._version}",
            "kind": names.COMPUTE_DOMAIN_KIND,
            "metadata": metadata(cluster_config, name),
            "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
        }

    async def possible(
        self, cluster_config: RayClusterConfig, actions: list[Action]
    ) -> list[Action]:
        """Leave out deletions of ComputeDomains in use, which would stop draining pods at once."""
        if not any(isinstance(action, Delete) for action in actions):
            return actions
        path = f"/api/v1/namespaces/{quote(cluster_config.namespace)}/pods"
        selection = [("labelSelector", f"{names.LABEL_CLUSTER}={cluster_config.name}")]
        pods = await list_all(self._api, path, selection, PODS.codec)
        used = {
            claim.resource_claim_template_name
            for pod in pods
            for claim in (() if pod.ended else pod.spec.resource_claims or ())
        }
        return [
            action
            for action in actions
            if not isinstance(action, Delete) or action.seen.identity.name not in used
        ]


def build_desired_domains(cluster_config: RayClusterConfig, taken: Occupied) -> Desired:
    """Return the desired ComputeDomains: of replicas with pods, and of requested replicas."""
    pod_groups = [PodGroup(name, "", BASIC, "") for name in _names(cluster_config, taken)]
    return Desired(cluster_config.uid, pod_groups=tuple(pod_groups))


def _names(cluster_config: RayClusterConfig, taken: Occupied) -> Iterator[str]:
    domains, ids = cluster_config.domains, (cluster_config.name, cluster_config.uid)
    if domains.scope == CLUSTER and (domains.groups or domains.head):
        yield domain_name(CLUSTER, *ids)
    elif domains.scope == WORKER_GROUP:
        for group in domains.groups:
            yield domain_name(WORKER_GROUP, *ids, group)
    else:
        for group, replicas in taken.items():
            for replica in sorted(replicas if group in domains.groups else ()):
                if replica:
                    yield domain_name(domains.scope, *ids, group, replica)


COMPUTE_DOMAINS: Final = Subject(
    "ComputeDomains",
    lambda cluster_config: bool(cluster_config.domains.scope),
    build_desired_domains,
    DomainStore,
)
