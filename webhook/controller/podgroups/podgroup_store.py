"""Workloads and PodGroups in the API server, in one version of its API."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final
from urllib.parse import quote

from webhook.api import names
from webhook.api.objects import OBJECT_BYTES_MAX, Bare, NamedOutline
from webhook.controller.podgroups.lifecycle import (
    Action,
    Actual,
    Create,
    Delete,
    Seen,
    SeenPodGroup,
    SeenWorkload,
)
from webhook.controller.podgroups.podgroup_api import (
    POD_GROUPS,
    WORKLOADS,
    Body,
    ReadObject,
    labels,
    metadata,
    operations,
    pod_group_spec,
    resource_of,
    workload_spec,
)
from webhook.controller.requests import LIST_SECONDS, list_all
from webhook.controller.work_queue import Key
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import Workload
from webhook.kubeclient.client import Api, decode_response
from webhook.kubeclient.wire import Codec, Resource, pages, path_of

Named = tuple[str, str]
"""Resource and name of an object."""

Selector = tuple[str, str]
"""A selector parameter of a list request."""

_CONSTRAINTS: Final = "schedulingConstraints"
_BARE: Final = Codec(Bare, NamedOutline, OBJECT_BYTES_MAX)
_OBJECTS: Final = Codec(ReadObject, NamedOutline, OBJECT_BYTES_MAX)
_log: Final = logging.getLogger("webhook.controller")


class PodGroupStore:
    """Store of objects. All methods raise ApiError; a change of an old version is a conflict."""

    group = names.SCHEDULING_GROUP
    resources: tuple[str, ...] = (POD_GROUPS, WORKLOADS)

    def __init__(self, api: Api, version: str) -> None:
        self.resizable = version != "v1alpha2"
        """Whether the minimal count of a gang is mutable."""
        self._api = api
        self._version = version
        self._warned = False

    async def all(self, namespace: str) -> dict[Key, Actual]:
        """Return the managed objects by RayCluster, in all namespaces if `namespace` is empty.

        Anyone can label any number of large objects as managed. Portions are therefore not
        collected, and an object that cannot be decoded is left out.
        """
        selection = [("labelSelector", f"{names.LABEL_MANAGED_BY}={names.MANAGER}")]
        seen_by_cluster: defaultdict[Key, list[Seen]] = defaultdict(list)
        for resource in self.resources:
            path = self.path(resource, namespace)
            listed = Resource(resource, namespace, path=path, codec=_OBJECTS, query=selection)
            async with aclosing(pages(self._api, listed, LIST_SECONDS)) as portions:
                async for _, read_objects in portions:
                    for read_object in read_objects:
                        meta = read_object.metadata
                        cluster = (meta.labels or {}).get(names.LABEL_CLUSTER, "")
                        seen_object = read_object.seen(resource)
                        seen_by_cluster[meta.namespace or "", cluster].append(seen_object)
        return {place: _actual(seen_objects) for place, seen_objects in seen_by_cluster.items()}

    async def of(self, cluster_config: RayClusterConfig, others: Iterable[Named] = ()) -> Actual:
        """Return the managed objects of a RayCluster, and the objects of the given names."""
        selector = ",".join(f"{key}={value}" for key, value in labels(cluster_config.name).items())
        seen_by_name: dict[Named, Seen] = {}
        for resource in self.resources:
            for read_object in await self._list(
                resource, cluster_config.namespace, ("labelSelector", selector)
            ):
                seen_by_name[resource, read_object.metadata.name or ""] = read_object.seen(resource)
        for resource, name in others:
            if (resource, name) not in seen_by_name:
                by_name = ("fieldSelector", f"metadata.name={name}")
                for read_object in await self._list(resource, cluster_config.namespace, by_name):
                    seen_by_name[resource, name] = read_object.seen(resource)
        return _actual(seen_by_name.values())

    async def has_head(self, cluster_config: RayClusterConfig) -> bool:
        selector = (
            f"{names.LABEL_CLUSTER}={cluster_config.name},"
            f"{names.LABEL_NODE_TYPE}={names.NODE_TYPE_HEAD}"
        )
        path = f"/api/v1/namespaces/{quote(cluster_config.namespace)}/pods"
        return bool(await list_all(self._api, path, [("labelSelector", selector)], _BARE))

    async def possible(
        self, cluster_config: RayClusterConfig, actions: list[Action]
    ) -> list[Action]:
        del cluster_config
        return actions

    async def perform(self, cluster_config: RayClusterConfig, action: Action) -> None:
        if isinstance(action, Create):
            path = self.path(resource_of(action.desired), cluster_config.namespace)
            body = self.body(cluster_config, action)
            stored = decode_response(await self._api.create(path, body), ReadObject)
            # The API server drops a field whose feature gate is off, without an error.
            if _CONSTRAINTS in body["spec"] and not stored.spec.scheduling_constraints:
                self._warn_of_dropped_constraint(cluster_config, action.desired.name)
            return
        identity = action.seen.identity
        collection = self.path(resource_of(action.seen), cluster_config.namespace)
        path = f"{collection}/{quote(identity.name)}"
        if isinstance(action, Delete):
            await self._api.delete(path, identity.uid, identity.version)
        else:
            await self._api.patch(path, operations(action, cluster_config.name), identity.version)

    def _warn_of_dropped_constraint(self, cluster_config: RayClusterConfig, name: str) -> None:
        if not self._warned:
            self._warned = True
            message = (
                "PodGroup %s/%s: the API server dropped its topology constraint; turn on the "
                "feature gate TopologyAwareWorkloadScheduling, or rely on the affinity of its pods"
            )
            _log.warning(message, cluster_config.namespace, name)

    async def _list(self, resource: str, namespace: str, selector: Selector) -> list[ReadObject]:
        return await list_all(self._api, self.path(resource, namespace), [selector], _OBJECTS)

    def path(self, resource: str, namespace: str) -> str:
        """Return the path of a collection, in all namespaces if none is given."""
        return path_of(f"/apis/{self.group}/{self._version}", namespace, resource)

    def body(self, cluster_config: RayClusterConfig, creation: Create) -> Body:
        """Return a new object."""
        desired_object = creation.desired
        if isinstance(desired_object, Workload):
            kind, spec = "Workload", workload_spec(cluster_config, desired_object)
        else:
            spec = pod_group_spec(desired_object, creation.workload, newest=self.resizable)
            kind = "PodGroup"
        meta = {
            **metadata(cluster_config, desired_object.name),
            "annotations": {names.ANNOTATION_PRIORITY_CLASS: desired_object.priority_class},
        }
        version = f"{self.group}/{self._version}"
        return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def _actual(found: Iterable[Seen]) -> Actual:
    every = tuple(found)
    return Actual(
        tuple([seen_object for seen_object in every if isinstance(seen_object, SeenPodGroup)]),
        tuple([seen_object for seen_object in every if isinstance(seen_object, SeenWorkload)]),
    )
