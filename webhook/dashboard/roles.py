"""The namespaces in which RBAC grants a user a permission, from the roles and bindings of a
cluster.

Source of the rules: the RBAC authorizer of Kubernetes, plugin/pkg/auth/authorizer/rbac.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")

Resource = tuple[str, str]
"""An API group and a resource of the group."""

_EVERY: Final = "*"


class Metadata(Struct, frozen=True):
    """`metadata` of a role or a binding."""

    name: str
    namespace: str = ""


class Rule(Struct, frozen=True, rename="camel"):
    """A PolicyRule of `rules`."""

    verbs: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    resource_names: tuple[str, ...] | None = None

    def lists(self, resource: Resource) -> bool:
        """Return whether the rule grants listing all objects of a resource."""
        return (
            not self.resource_names
            and _has(self.verbs, "list")
            and _has(self.api_groups, resource[0])
            and _has(self.resources, resource[1])
        )


class Role(Struct, frozen=True):
    """A Role or a ClusterRole."""

    metadata: Metadata
    rules: tuple[Rule, ...] | None = None


class Named(Struct, frozen=True):
    """`roleRef`, or one of `subjects`."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Binding(Struct, frozen=True, rename="camel"):
    """A RoleBinding."""

    metadata: Metadata
    role_ref: Named
    subjects: tuple[Named, ...] | None = None


class Listed(Struct, Generic[T], frozen=True):
    """The response to a list request."""

    items: tuple[T, ...] | None = None


ROLES: Final = msgspec.json.Decoder(Listed[Role])
BINDINGS: Final = msgspec.json.Decoder(Listed[Binding])


class Grants:
    """The grants of the RoleBindings of a cluster: for each subject and resource, the namespaces in
    which all objects of the resource can be listed.
    """

    def __init__(
        self,
        roles: Iterable[Role],
        cluster_roles: Iterable[Role],
        bindings: Iterable[Binding],
        resources: Sequence[Resource],
    ) -> None:
        granted: dict[tuple[str, str, str], set[Resource]] = {}
        for kind, every in (("Role", roles), ("ClusterRole", cluster_roles)):
            for role in every:
                found = {each for each in resources if _lists(role, each)}
                if found:
                    meta = role.metadata
                    granted[kind, meta.namespace, meta.name] = found
        self._namespaces: dict[tuple[str, str, Resource], set[str]] = {}
        for binding in bindings:
            namespace, ref = binding.metadata.namespace, binding.role_ref
            place = namespace if ref.kind == "Role" else ""
            for resource in granted.get((ref.kind, place, ref.name), ()):
                for subject in binding.subjects or ():
                    who = _subject(subject, namespace)
                    self._namespaces.setdefault((*who, resource), set()).add(namespace)

    def namespaces(self, user: dict[str, Any], resource: Resource) -> set[str]:
        """Return the namespaces in which a user (`status.user`) can list the resource."""
        subjects = [("User", str(user.get("username", "")))]
        subjects += [("Group", str(group)) for group in user.get("groups") or ()]
        found = (self._namespaces.get((*each, resource), set()) for each in subjects)
        return set().union(*found)


def _lists(role: Role, resource: Resource) -> bool:
    return any(rule.lists(resource) for rule in role.rules or ())


def _has(values: tuple[str, ...] | None, wanted: str) -> bool:
    return values is not None and (_EVERY in values or wanted in values)


def _subject(subject: Named, namespace: str) -> tuple[str, str]:
    """Return kind and name of a subject; a ServiceAccount is a user."""
    if subject.kind == "ServiceAccount":
        place = subject.namespace or namespace
        return "User", f"system:serviceaccount:{place}:{subject.name}"
    return subject.kind, subject.name
