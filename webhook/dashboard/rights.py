"""The rights of a user: the namespaces in which the user can list the objects of the dashboard."""

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol

import msgspec

from webhook.api import names
from webhook.dashboard.roles import (
    BINDINGS,
    ROLES,
    Grants,
    Resource,
)
from webhook.dashboard.routes import NotNowError
from webhook.dashboard.shared_values import Shared
from webhook.kubeclient.client import Query
from webhook.kubeclient.errors import ApiError

ALLOWED_SECONDS: Final = 30.0
"""The lifetime of cached rights."""
NEEDED: Final[tuple[Resource, ...]] = ((names.RAY_GROUP, "rayclusters"), ("", "pods"))
"""The resources that a user must be allowed to list in a namespace to see it."""
_USERS: Final = 1000
_AT_ONCE: Final = 8
_DEADLINE: Final = 10.0
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CACHED: Final = (("resourceVersion", "0"),)
"""The API server answers from its cache."""

User = dict[str, Any]
"""`status.user` of a TokenReview."""


class Requests(Protocol):
    """Requests to the API server."""

    async def get(self, path: str, query: Query, deadline: float) -> bytes:
        """Return a list. Raises ApiError."""

    async def post(
        self, path: str, query: Query, body: Mapping[str, object], deadline: float
    ) -> bytes:
        """Return a review with its status. Raises ApiError."""


class Reviews:
    """Requests for reviews to the API server, with bounded concurrency."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def status(
        self, path: str, version: str, kind: str, spec: Mapping[str, object]
    ) -> dict[str, Any]:
        """Return the status of a review. Raises NotNowError."""
        body = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        try:
            async with self._room:
                answer = await self._requests.post(path, (), body, _DEADLINE)
            found: dict[str, Any] = msgspec.json.decode(answer).get("status") or {}
        except (ApiError, msgspec.DecodeError, AttributeError) as error:
            msg = f"the API server does not say who you are: {error}"
            raise NotNowError(msg) from error
        return found

    async def grants(self) -> Grants:
        """Return the grants of the RoleBindings in all namespaces. Raises NotNowError."""
        try:
            async with self._room:
                bodies = [
                    await self._requests.get(f"{_RBAC}/{resource}", _CACHED, _DEADLINE)
                    for resource in ("roles", "clusterroles", "rolebindings")
                ]
            roles, cluster_roles = (ROLES.decode(each).items or () for each in bodies[:2])
            bindings = BINDINGS.decode(bodies[2]).items or ()
        except (ApiError, msgspec.DecodeError) as error:
            msg = f"the RoleBindings of the cluster cannot be read: {error}"
            raise NotNowError(msg) from error
        return Grants(roles, cluster_roles, bindings, NEEDED)


class Rights:
    """Reads the rights of users, once for all requests of a user within their lifetime.

    The API server has no request for the namespaces that a user can read, and a request for each
    namespace would be too many. The first request is for all namespaces; if it is denied,
    RoleBindings list the namespaces of a user, and the API server has to confirm one of these,
    since an authorizer before RBAC may deny what RBAC grants.
    """

    def __init__(self, reviews: Reviews, clock: Callable[[], float]) -> None:
        self._reviews = reviews
        self._users: Shared[bytes, frozenset[str] | None] = Shared(_USERS, ALLOWED_SECONDS, clock)
        self._grants: Shared[None, Grants] = Shared(1, ALLOWED_SECONDS, clock)

    async def namespaces(self, user: User) -> frozenset[str] | None:
        """Return the namespaces that a user can see, None for all. Raises NotNowError."""
        key = sha256(msgspec.json.encode(user, order="sorted")).digest()
        return await self._users.get(key, lambda: self._read(user))

    async def _read(self, user: User) -> frozenset[str] | None:
        refused = [each for each in NEEDED if not await self._allows(user, "", each)]
        if not refused:
            return None
        grants = await self._grants.get(None, self._reviews.grants)
        found = set.intersection(*(grants.namespaces(user, each) for each in refused))
        if not found:
            return frozenset()
        confirmed = [await self._allows(user, min(found), each) for each in refused]
        return frozenset(found) if all(confirmed) else frozenset()

    async def _allows(self, user: User, namespace: str, resource: Resource) -> bool:
        spec: dict[str, object] = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "resourceAttributes": {
                "verb": "list",
                "group": resource[0],
                "resource": resource[1],
                "namespace": namespace,
            },
        }
        status = await self._reviews.status(
            _ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        return status.get("allowed") is True
