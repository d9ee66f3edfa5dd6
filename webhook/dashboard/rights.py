"""The rights of a user: the namespaces in which the user can list the objects of the dashboard.

Source of the rules: the RBAC authorizer of Kubernetes, plugin/pkg/auth/authorizer/rbac.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from webhook.api import names
from webhook.api.objects import ObjectMeta
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

Resource = tuple[str, str]
"""An API group and a resource of the group."""

_EVERY: Final = "*"
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


class UserScope(Struct, frozen=True):
    """A user and the namespaces that the user can see, None for all."""

    user: str
    namespaces: frozenset[str] | None

    def sees(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


class NotNowError(Exception):
    """A request cannot be answered now, but may be retried in a moment."""


class Shared(Generic[K, V]):
    """A cache with a size limit and a lifetime. All requests for a key share one computation, which
    continues when a request is cancelled; failures are not cached.
    """

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._computed: dict[K, asyncio.Future[V]] = {}

    def __contains__(self, key: K) -> bool:
        """Return whether a value was stored for a key, even if expired."""
        return key in self._kept

    async def get(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        """Return the value of a key, cached or computed. Raises the exceptions of `compute`."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept[0]:
            self._kept.move_to_end(key)
            return kept[1]
        if key not in self._computed:
            future = self._computed[key] = asyncio.ensure_future(compute())
            future.add_done_callback(partial(self._settle, key))
        return await asyncio.shield(self._computed[key])

    def put(self, key: K, value: V) -> None:
        """Store a value; above the limit, the least recently requested value is dropped."""
        self._kept[key] = (self._clock() + self._seconds, value)
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def _settle(self, key: K, future: asyncio.Future[V]) -> None:
        del self._computed[key]
        if not future.cancelled() and future.exception() is None:
            self.put(key, future.result())


class Rule(Struct, frozen=True, rename="camel"):
    """A PolicyRule of `rules`."""

    verbs: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    resource_names: tuple[str, ...] | None = None

    def lists(self, resource: Resource) -> bool:
        return (
            not self.resource_names
            and _has(self.verbs, "list")
            and _has(self.api_groups, resource[0])
            and _has(self.resources, resource[1])
        )


class Role(Struct, frozen=True):
    """A Role or a ClusterRole."""

    metadata: ObjectMeta
    rules: tuple[Rule, ...] | None = None


class Named(Struct, frozen=True):
    """`roleRef`, or one of `subjects`."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Binding(Struct, frozen=True, rename="camel"):
    """A RoleBinding."""

    metadata: ObjectMeta
    role_ref: Named
    subjects: tuple[Named, ...] | None = None


class Listed(Struct, Generic[T], frozen=True):
    """The response to a list request."""

    items: tuple[T, ...] | None = None


ROLES: Final = msgspec.json.Decoder(Listed[Role])
BINDINGS: Final = msgspec.json.Decoder(Listed[Binding])


class Grants:
    """The grants of the RoleBindings of a cluster: for each subject and needed resource, the
    namespaces in which all objects of the resource can be listed.
    """

    def __init__(
        self, roles: Iterable[Role], cluster_roles: Iterable[Role], bindings: Iterable[Binding]
    ) -> None:
        granted = {
            (kind, role.metadata.namespace or "", role.metadata.name): [
                each for each in NEEDED if any(rule.lists(each) for rule in role.rules or ())
            ]
            for kind, every in (("Role", roles), ("ClusterRole", cluster_roles))
            for role in every
        }
        self._namespaces: defaultdict[tuple[str, str, Resource], set[str]] = defaultdict(set)
        for binding in bindings:
            namespace, ref = binding.metadata.namespace or "", binding.role_ref
            place = namespace if ref.kind == "Role" else ""
            for resource in granted.get((ref.kind, place, ref.name), ()):
                for subject in binding.subjects or ():
                    self._namespaces[(*_subject(subject, namespace), resource)].add(namespace)

    def namespaces(self, user: dict[str, Any], resource: Resource) -> set[str]:
        """Return the namespaces in which a user (`status.user`) can list the resource."""
        subjects = [("User", str(user.get("username", "")))]
        subjects += [("Group", str(group)) for group in user.get("groups") or ()]
        found = (self._namespaces.get((*each, resource), set()) for each in subjects)
        return set().union(*found)


def _has(values: tuple[str, ...] | None, wanted: str) -> bool:
    return values is not None and (_EVERY in values or wanted in values)


def _subject(subject: Named, namespace: str) -> tuple[str, str]:
    """Return kind and name of a subject; a ServiceAccount is a user."""
    if subject.kind == "ServiceAccount":
        place = subject.namespace or namespace
        return "User", f"system:serviceaccount:{place}:{subject.name}"
    return subject.kind, subject.name


class Reviews:
    """Requests for reviews to the API server, with bounded concurrency."""

    def __init__(self, requests: Api) -> None:
        self._requests = requests
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def status(
        self, path: str, version: str, kind: str, spec: Mapping[str, object]
    ) -> dict[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        try:
            async with self._room:
                answer = await self._requests.create(path, body, _DEADLINE)
            found: dict[str, Any] = msgspec.json.decode(answer).get("status") or {}
        except (ApiError, msgspec.DecodeError, AttributeError) as error:
            msg = f"the API server does not say who you are: {error}"
            raise NotNowError(msg) from error
        return found

    async def grants(self) -> Grants:
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
        return Grants(roles, cluster_roles, bindings)


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
