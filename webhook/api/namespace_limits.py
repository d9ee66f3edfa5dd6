"""ResourceQuotas and LimitRanges, with amounts in thousandths."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from decimal import ROUND_CEILING, Decimal
from itertools import chain
from typing import Final

import msgspec
from msgspec import Struct, field

from webhook.api.objects import Amounts, ObjectMeta
from webhook.api.quantity import read_quantity

QUOTA_KIND: Final = "ResourceQuota"
LIMIT_RANGE_KIND: Final = "LimitRange"

Thousandths = dict[str, int]
"""Amounts by the name of the resource; the API server rounds every amount up to a thousandth.

https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
(`SetDefaults_ResourceList`)
"""
_THOUSAND: Final = Decimal(1000)
_SCALE: Final = {"Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30, "Ti": 1000 << 40}
_BYTES: Final = ("memory", "storage", "hugepages")
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED: Final = [
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")
]
"""Names by which a quota refuses pods with a container without the amount."""
CONTAINER: Final = "Container"
POD: Final = "Pod"


class ScopeTerm(Struct, rename="camel", frozen=True, gc=False):
    """A term of a `scopeSelector`."""

    scope_name: str = ""
    operator: str = "Exists"
    values: tuple[str, ...] | None = None


class _ScopeSelector(Struct, rename="camel", frozen=True, gc=False):
    match_expressions: tuple[ScopeTerm, ...] | None = None


class _QuotaSpec(Struct, rename="camel", frozen=True, gc=False):
    hard: Amounts | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


class _QuotaStatus(Struct, frozen=True, gc=False):
    hard: Amounts | None = None
    used: Amounts | None = None


class ResourceQuota(Struct, frozen=True, gc=False):
    """A ResourceQuota. Admission reads `status.hard`, which a new one does not have yet."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _QuotaSpec = field(default_factory=_QuotaSpec)
    status: _QuotaStatus = field(default_factory=_QuotaStatus)


class _LimitItem(Struct, rename="camel", frozen=True, gc=False):
    type: str = ""
    max: Amounts | None = None
    min: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class _LimitSpec(Struct, frozen=True, gc=False):
    limits: tuple[_LimitItem, ...] | None = None


class LimitRange(Struct, frozen=True, gc=False):
    """A LimitRange."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _LimitSpec = field(default_factory=_LimitSpec)


_KINDS: Final = {QUOTA_KIND: ResourceQuota, LIMIT_RANGE_KIND: LimitRange}


class Quota(Struct, frozen=True):
    """The amounts of a ResourceQuota, those that are left, and those that every container must
    have. It counts the pods that match all terms of `scopes`.
    """

    name: str
    hard: Thousandths
    free: Thousandths
    required: tuple[str, ...]
    scopes: tuple[ScopeTerm, ...]


class LimitRangeItem(Struct, frozen=True):
    """The limits of a LimitRange for pods, or for containers with their defaults."""

    name: str
    type: str
    max: Thousandths
    min: Thousandths
    ratio: Thousandths
    default: Thousandths
    default_request: Thousandths


class NamespaceLimits:
    """The ResourceQuotas and LimitRanges of a namespace, and the amounts that LimitRanges add to
    containers without them: of several, the first has precedence.

    `charges`: for names in quotas, whether the limits of a resource count instead of its requests.
    `resources`: the resources that all these name. `size`: the number of amounts.
    """

    def __init__(self, limits: Iterable[Quota | LimitRangeItem]) -> None:
        self.quotas: list[Quota] = []
        self.limits: list[LimitRangeItem] = []
        self.default: Thousandths = {}
        self.default_request: Thousandths = {}
        self.charges: dict[str, tuple[bool, str]] = {}
        resources: list[str] = []
        for limit in limits:
            if isinstance(limit, Quota):
                self.quotas.append(limit)
                self.charges |= {name: charge for name in limit.hard if (charge := _charge(name))}
                resources += limit.hard
                # Whether a pod is in the scope BestEffort depends on these
                resources += _COMPUTE if limit.scopes else ()
                continue
            if limit.max or limit.min or limit.ratio:
                self.limits.append(limit)
            self.default = {**limit.default, **self.default}
            self.default_request = {**limit.default_request, **self.default_request}
            resources += (*limit.max, *limit.min, *limit.ratio, *limit.default_request)
        charged = (resource for _, resource in self.charges.values())
        self.resources = frozenset((*resources, *charged))
        self.size = len(resources)

    def usage(self, requests: Thousandths, limits: Thousandths) -> Thousandths:
        """Return the amounts of a pod or container by the names that quotas have for them."""
        usage = {}
        for name, (of_limits, resource) in self.charges.items():
            amount = (limits if of_limits else requests).get(resource)
            if amount is not None:
                usage[name] = amount
        return usage


def _charge(name: str) -> tuple[bool, str] | None:
    """Return what a name in a quota counts, None if no amounts of pods.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/quota/v1/evaluator/core/pods.go
    (`podComputeUsageHelper`)
    """
    if name.startswith("limits."):
        resource = name.removeprefix("limits.")
        return (True, resource) if resource in _COMPUTE else None
    resource = name.removeprefix("requests.")
    if resource in _COMPUTE or resource.startswith("hugepages-"):
        return False, resource
    extended = "/" in resource and "kubernetes.io/" not in resource
    counts = extended and name != resource and not resource.startswith("requests.")
    return (False, resource) if counts else None


def thousandths(amounts: object, resources: Container[str] | None = None) -> Thousandths:
    """Return amounts rounded up to thousandths, without those that are not quantities, and without
    those of other resources than `resources`.
    """
    rounded_amounts = {}
    for name, value in amounts.items() if isinstance(amounts, dict) else ():
        if resources is None or name in resources:
            amount = thousandth(value)
            if amount is not None:
                rounded_amounts[name] = amount
    return rounded_amounts


def thousandth(value: object) -> int | None:
    """Return an amount rounded up to thousandths, or None if it is not a quantity."""
    # Fast path of the common cases.
    if type(value) is int:
        return value * 1000
    if type(value) is str and value.isascii() and len(value) < 10:  # noqa: PLR2004
        if value.isdigit():
            return int(value) * 1000
        if value[-1:] == "m" and value[:-1].isdigit():
            return int(value[:-1])
        scale = _SCALE.get(value[-2:])
        if scale and value[:-2].isdigit():
            return int(value[:-2]) * scale
    amount = None if isinstance(value, bool) else read_quantity(value)
    return None if amount is None else int((amount * _THOUSAND).to_integral_value(ROUND_CEILING))


def format_amount(name: str, amount: int) -> str:
    """Return an amount in thousandths as Kubernetes writes it."""
    whole, rest = divmod(amount, 1000)
    if rest:
        return f"{amount}m"
    if any(resource in name for resource in _BYTES):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if whole and whole % 2 ** (10 * power) == 0:
                return f"{whole >> 10 * power}{suffix}"
    return str(whole)


def read_limits(value: ResourceQuota | LimitRange) -> Iterator[Quota | LimitRangeItem]:
    """Yield the limits of an object: of a ResourceQuota, of which nothing is used without a status,
    or those of a LimitRange for pods and containers, with the defaults that the API server adds.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
    (`SetDefaults_LimitRangeItem`)
    """
    name = value.metadata.name or ""
    if isinstance(value, ResourceQuota):
        spec, status = value.spec, value.status
        selected = spec.scope_selector.match_expressions if spec.scope_selector else None
        scopes = (*map(ScopeTerm, spec.scopes or ()), *(selected or ()))
        hard = thousandths(spec.hard if status.hard is None else status.hard)
        used = thousandths(status.used)
        free = {resource: amount - used.get(resource, 0) for resource, amount in hard.items()}
        yield Quota(name, hard, free, tuple(filter(hard.__contains__, _REQUIRED)), scopes)
        return
    for item in value.spec.limits or ():
        if item.type not in (CONTAINER, POD):
            continue
        most, least = thousandths(item.max), thousandths(item.min)
        default = most | thousandths(item.default)
        request = least | default | thousandths(item.default_request)
        yield LimitRangeItem(
            name,
            item.type,
            max=most,
            min=least,
            ratio=thousandths(item.max_limit_request_ratio),
            default=default if item.type == CONTAINER else {},
            default_request=request if item.type == CONTAINER else {},
        )


def read_namespaces(documents: Iterable[object]) -> dict[str, NamespaceLimits]:
    """Return the limits of namespaces by the ResourceQuotas and LimitRanges among documents. A
    later object of the same name replaces an earlier one, and one of an invalid shape is left out.
    """
    objects: defaultdict[str, dict[tuple[type, str | None], list[Quota | LimitRangeItem]]]
    objects = defaultdict(dict)
    for document in documents:
        kind = _KINDS.get(str(document.get("kind"))) if isinstance(document, dict) else None
        with suppress(msgspec.ValidationError):
            if kind is not None:
                value: ResourceQuota | LimitRange = msgspec.convert(document, kind)
                meta = value.metadata
                objects[meta.namespace or "default"][kind, meta.name] = [*read_limits(value)]
    return {
        namespace: NamespaceLimits(chain.from_iterable(limits.values()))
        for namespace, limits in objects.items()
    }
