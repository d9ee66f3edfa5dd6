"""Probes: the requests of `check` to the API server, including dry runs. Nothing is stored."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import structs

from webhook.api import names
from webhook.cache.cluster_cache import UserReads, read_cluster
from webhook.check.installation_checks import (
    DEFINITIONS,
    LEASES,
    LIMIT_RANGES,
    QUOTAS,
    Object,
    Probed,
    Tried,
)
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.installation_problems import OURS
from webhook.diagnostics.report import ClusterReport
from webhook.kubeclient.client import DRY_RUN, Api, decode_response
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.reservation_leases import check_content
from webhook.kubeclient.wire import path_of
from webhook.objects.live_objects import WebhookConfiguration

_SECONDS: Final = 30.0
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OPERATOR: Final = "app.kubernetes.io/name=kuberay-operator"
_RIGHTS: Final = (
    {"verb": "list", "group": "", "resource": "pods"},
    {"verb": "watch", "group": "", "resource": "pods"},
    {"verb": "list", "group": names.RAY_GROUP, "resource": "rayclusters"},
    {"verb": "watch", "group": names.RAY_GROUP, "resource": "rayclusters"},
    {"verb": "list", "group": "", "resource": QUOTAS},
    {"verb": "watch", "group": "", "resource": QUOTAS},
    {"verb": "list", "group": "", "resource": LIMIT_RANGES},
    {"verb": "watch", "group": "", "resource": LIMIT_RANGES},
    {
        "verb": "get",
        "group": "apiextensions.k8s.io",
        "resource": DEFINITIONS,
        "name": f"rayclusters.{names.RAY_GROUP}",
    },
)
_RESERVATIONS: Final = tuple(
    {"verb": verb, "group": "coordination.k8s.io", "resource": LEASES}
    for verb in ("get", "list", "create", "update", "delete")
)
"""The required rights on the Leases that contain reservations, in a namespace."""
_AT_ONCE: Final = 8
"""Concurrent dry runs of Leases."""
_LEASES_MAX: Final = 64
"""Leases that are tested: there is a Lease for each group."""
_NOWHERE: Final = "ray-webhook-check"
"""The name of objects that are only sent in dry runs."""


class Probes:
    """Probes for a namespace. `worker_of` returns the first worker pod of a RayCluster in JSON;
    `claims` is the namespace of the Leases, if it is not that of the Service. With `everywhere`,
    workers of all namespaces are checked, if that is allowed.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        worker_of: Callable[[Object], Object | None],
        claims: str = "",
        *,
        ignoring: bool,
        everywhere: bool = False,
    ) -> None:
        self._everywhere = everywhere
        self._api = api
        self._reads = UserReads(api)
        self._namespace = namespace
        self._worker_of = worker_of
        self._claims = claims
        self._ignoring = ignoring
        self._rayclusters = path_of(f"/apis/{names.RAY_GROUP}/v1", namespace, "rayclusters")

    async def needs(self) -> Probed:
        """Return the requirements of an installation. Raises ApiError if the API server does not
        answer.
        """
        version = await self._reads.get("/version")
        selector = [("labelSelector", _OPERATOR)]
        served, cert_manager, operators = await asyncio.gather(
            _exists(self._api, f"/apis/{names.RAY_GROUP}/v1"),
            _exists(self._api, "/apis/cert-manager.io/v1"),
            self._reads.items("deployments", "/apis/apps/v1/deployments", selector),
        )
        unread = self._reads.unread
        return Probed(
            version,
            served,
            cert_manager=cert_manager,
            operators=operators,
            mutating=None,
            validating=None,
            ready={},
            unread=unread,
        )

    async def all(self, now: float) -> Probed:
        probed = await self.needs()
        (
            mutating,
            validating,
            broken,
            (owner, worker),
            (scope, cluster_report),
        ) = await asyncio.gather(
            self._configurations("mutatingwebhookconfigurations"),
            self._configurations("validatingwebhookconfigurations"),
            _attempt(self._api, self._rayclusters, _broken(self._namespace)),
            self._worker(),
            self._cluster_report(now),
        )
        probed = structs.replace(
            probed,
            mutating=mutating,
            validating=validating,
            broken=broken,
            worker=worker,
            owner=owner,
            cluster_report=cluster_report,
            scope=scope,
        )
        services = _services((*(mutating or ()), *(validating or ())))
        if not services:
            return probed
        ready = {
            f"{namespace}/{name}": await self._reads.ready_endpoints(namespace, name)
            for namespace, name in services
        }
        namespace = services[0][0]
        pods = await self._behind(*services[0])
        accounts = _accounts(namespace, pods)
        return structs.replace(
            probed,
            ready=ready,
            accounts=accounts,
            settings=await self._settings(namespace, pods),
            reservations=await self._reservations(self._claims or namespace),
            rights=await self._rights(accounts[0], self._claims or namespace) if accounts else {},
        )

    async def _worker(self) -> tuple[str, Tried]:
        """Send a worker pod of the first RayCluster that has a group with replicas, otherwise of a
        RayCluster that does not exist.
        """
        owner, pod = "", _orphan(self._namespace)
        for cluster in await self._reads.items("rayclusters", self._rayclusters) or ():
            worker_pod = self._worker_of(cluster)
            if worker_pod is not None:
                owner, pod = str(cluster["metadata"]["name"]), worker_pod
                break
        return owner, await _attempt(self._api, path_of("/api/v1", self._namespace, "pods"), pod)

    async def _reservations(self, place: str) -> dict[str, Tried]:
        """Return the results of dry runs of a new Lease and of some that contain reservations, by
        namespace and name; for a Lease that cannot be decoded, the error.
        """
        path = path_of("/apis/coordination.k8s.io/v1", place, LEASES)
        tried = {f"{place}/{_NOWHERE}": await _attempt(self._api, path, _lease(place))}
        label = [("labelSelector", f"{names.LABEL_RESERVATIONS}=true"), ("limit", str(_LEASES_MAX))]
        leases = await self._reads.items(LEASES, path, label) or []
        limit = asyncio.Semaphore(_AT_ONCE)
        results = await asyncio.gather(
            *(_rewrite(self._api, path, lease, limit) for lease in leases)
        )
        for lease, result in zip(leases, results, strict=True):
            tried[f"{place}/{lease['metadata']['name']}"] = result
        return tried

    async def _configurations(self, plural: str) -> list[WebhookConfiguration] | None:
        items = await self._reads.items(plural, f"{_ADMISSION}/{plural}")
        return None if items is None else msgspec.convert(items, list[WebhookConfiguration])

    async def _cluster_report(self, now: float) -> tuple[str, ClusterReport | None]:
        """Return the namespace that was checked, empty for all, and its report."""
        scopes = ["", self._namespace] if self._everywhere else [self._namespace]
        for scope in scopes:
            reading = read_cluster(self._api, scope, ignoring=self._ignoring)
            read = await self._reads.attempt("pods", reading)
            if read is not None:
                self._reads.unread.pop("pods", None)  # of all namespaces
                objects, unread = read
                return scope, examine(objects, now, unread)
        return self._namespace, None

    async def _behind(self, namespace: str, service: str) -> Sequence[Object]:
        path = f"/api/v1/namespaces/{namespace}/services/{service}"
        service_object = await self._reads.attempt("services", self._reads.get(path))
        selector = ((service_object or {}).get("spec") or {}).get("selector") or {}
        if not selector:
            return ()
        label_selector = [
            ("labelSelector", ",".join(f"{key}={value}" for key, value in selector.items()))
        ]
        path = path_of("/api/v1", namespace, "pods")
        return await self._reads.items("pods", path, label_selector) or ()

    async def _settings(self, namespace: str, pods: Sequence[Object]) -> tuple[str, ...] | None:
        """Return the texts of the ConfigMaps that the pods mount; None if any cannot be read."""
        volumes = [volume for pod in pods for volume in pod["spec"].get("volumes") or ()]
        texts: list[str] = []
        for name in sorted(
            {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
        ):
            path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
            config_map = await self._reads.attempt("configmaps", self._reads.get(path))
            if config_map is None:
                return None
            texts += (config_map.get("data") or {}).values()
        return tuple(texts)

    async def _rights(self, account: str, place: str) -> dict[str, bool | None]:
        """Return whether an account has the required rights, by `verb resource`, and `in namespace`
        for rights that are required only there.
        """
        rights = {f"{right['verb']} {right['resource']}": right for right in _RIGHTS}
        for right in _RESERVATIONS:
            rights[f"{right['verb']} {LEASES} in {place}"] = {**right, "namespace": place}
        return {
            name: await self._reads.attempt(
                "subjectaccessreviews", _is_allowed(self._api, account, right)
            )
            for name, right in rights.items()
        }


def _services(configurations: Iterable[WebhookConfiguration]) -> list[tuple[str, str]]:
    return sorted(
        {
            (service.namespace, service.name)
            for configuration in configurations
            for webhook in configuration.webhooks or ()
            if webhook.name.endswith(OURS)
            and (service := webhook.client_config.service) is not None
        }
    )


def _accounts(namespace: str, pods: Sequence[Object]) -> tuple[str, ...]:
    accounts = {str(pod["spec"].get("serviceAccountName", "default")) for pod in pods}
    return tuple(f"system:serviceaccount:{namespace}:{account}" for account in sorted(accounts))


async def _is_allowed(api: Api, account: str, attributes: Mapping[str, str]) -> bool:
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review = {**kind, "spec": {"user": account, "resourceAttributes": attributes}}
    answer = decode_response(await api.create(_REVIEWS, review, _SECONDS), Object)
    return bool((answer.get("status") or {}).get("allowed"))


async def _attempt(api: Api, path: str, body: Object) -> Tried:
    try:
        stored = decode_response(await api.create(path, body, _SECONDS, DRY_RUN), Object)
    except ApiError as error:
        return Tried(None, str(error), error.reason)
    return Tried(stored)


async def _rewrite(api: Api, path: str, lease: Object, limit: asyncio.Semaphore) -> Tried:
    """Replace a Lease by itself, in a dry run."""
    if why := check_content(lease):
        return Tried(None, why, "unreadable")
    whole = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
    name = quote(str(lease["metadata"]["name"]), safe="")
    try:
        async with limit:
            await api.replace(f"{path}/{name}", whole, _SECONDS, DRY_RUN)
    except (
        ApiError
    ) as error:  # after a conflict, or if the Lease is missing, another process has written it
        if error.reason not in ("conflict", "missing"):
            return Tried(None, str(error), error.reason)
    return Tried(lease)


async def _exists(api: Api, path: str) -> bool | None:
    """Return whether an API is served; None if that is unknown."""
    try:
        await api.get(path, (), _SECONDS)
    except ApiError as error:
        return False if error.reason == "missing" else None
    return True


def _object(version: str, kind: str, meta: Object, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def _broken(namespace: str) -> Object:
    """Return a RayCluster that KubeRay cannot run: two groups have the same name."""
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]}}
    head = {"rayStartParams": {}, "template": template}
    group = {"groupName": "workers", "minReplicas": 0, "maxReplicas": 0, **head}
    meta = {"name": _NOWHERE, "namespace": namespace}
    spec = {"headGroupSpec": head, "workerGroupSpecs": [group, group]}
    return _object("ray.io/v1", names.RAYCLUSTER_KIND, meta, spec)


def _lease(namespace: str) -> Object:
    meta = {"name": _NOWHERE, "namespace": namespace, "labels": {names.LABEL_RESERVATIONS: "true"}}
    return _object("coordination.k8s.io/v1", "Lease", meta, {})


def _orphan(namespace: str) -> Object:
    """Return a worker pod of a RayCluster that does not exist."""
    labels = {
        names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER,
        names.LABEL_CLUSTER: _NOWHERE,
        names.LABEL_GROUP: "workers",
    }
    owner = {"apiVersion": "ray.io/v1", "kind": names.RAYCLUSTER_KIND, "controller": True}
    meta = {
        "generateName": f"{_NOWHERE}-",
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [{**owner, "name": _NOWHERE, "uid": _NOWHERE}],
    }
    containers = [{"name": "ray-worker", "image": "rayproject/ray:2.54.0"}]
    return _object("v1", "Pod", meta, {"containers": containers})
