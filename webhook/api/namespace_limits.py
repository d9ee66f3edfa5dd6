"""ResourceQuotas and LimitRanges, with amounts in thousandths."""

from collections import defaultdict
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


class Quota(Struct, frozen=True):
    """The amounts of a ResourceQuota, and the pods that it counts: those that match all terms."""

    name: str
    hard: Thousandths
    used: Thousandths
    scopes: tuple[ScopeTerm, ...] = ()


class LimitRangeItem(Struct, frozen=True):
    """The limits of a LimitRange for pods, or for containers with their defaults."""

    name: str
    type: str
    max: Thousandths
    min: Thousandths
    ratio: Thousandths
    default: Thousandths
    default_request: Thousandths


class NamespaceLimits(Struct, frozen=True):
    """The ResourceQuotas and LimitRanges of a namespace."""

    quotas: tuple[Quota, ...] = ()
    limits: tuple[LimitRangeItem, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of amounts."""
        quotas = sum(len(quota.hard) + len(quota.used) for quota in self.quotas)
        return quotas + sum(
            len(amounts)
            for limits in self.limits
            for amounts in (
                limits.max,
                limits.min,
                limits.ratio,
                limits.default,
                limits.default_request,
            )
        )


def thousandths(amounts: object) -> Thousandths:
    """Return amounts rounded up to thousandths, without those that are not quantities."""
    rounded_amounts = {}
    for name, value in amounts.items() if isinstance(amounts, dict) else ():
        if (amount := thousandth(value)) is not None:
            rounded_amounts[name] = amount
    return rounded_amounts


def thousandth(value: object) -> int | None:
    """Return an amount rounded up to thousandths, or None if it is not a quantity."""
    # Fast path of the common cases.
    if isinstance(value, str) and value.isascii() and len(value) < 10:  # noqa: PLR2004
        if value.isdigit():
            return int(value) * 1000
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


def read_quota(quota: ResourceQuota) -> Quota:
    """Return the amounts of a ResourceQuota; without a status, nothing is used."""
    spec, status = quota.spec, quota.status
    selected = spec.scope_selector.match_expressions if spec.scope_selector else None
    scopes = (*map(ScopeTerm, spec.scopes or ()), *(selected or ()))
    hard = spec.hard if status.hard is None else status.hard
    return Quota(quota.metadata.name or "", thousandths(hard), thousandths(status.used), scopes)


def read_limits(limit_range: LimitRange) -> list[LimitRangeItem]:
    """Return the limits of pods and containers, with the defaults that the API server adds.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
    (`SetDefaults_LimitRangeItem`)
    """
    limits = []
    for item in limit_range.spec.limits or ():
        if item.type not in (CONTAINER, POD):
            continue
        most, least = thousandths(item.max), thousandths(item.min)
        default = most | thousandths(item.default)
        request = least | default | thousandths(item.default_request)
        ratio = thousandths(item.max_limit_request_ratio)
        name = limit_range.metadata.name or ""
        if item.type == POD:
            default, request = {}, {}
        limits.append(
            LimitRangeItem(
                name,
                item.type,
                max=most,
                min=least,
                ratio=ratio,
                default=default,
                default_request=request,
            )
        )
    return limits


def read_namespaces(documents: list[dict[str, object]]) -> dict[str, NamespaceLimits]:
    """Return the ResourceQuotas and LimitRanges among documents, by namespace; a later object of
    the same name replaces an earlier one, and one of an invalid shape is left out.
    """
    quotas: defaultdict[str, dict[str, Quota]] = defaultdict(dict)
    ranges: defaultdict[str, dict[str, list[LimitRangeItem]]] = defaultdict(dict)
    for document in documents:
        try:
            if document.get("kind") == QUOTA_KIND:
                quota = msgspec.convert(document, ResourceQuota)
                namespace, name = _key(quota.metadata)
                quotas[namespace][name] = read_quota(quota)
            else:
                limit_range = msgspec.convert(document, LimitRange)
                namespace, name = _key(limit_range.metadata)
                ranges[namespace][name] = read_limits(limit_range)
        except msgspec.ValidationError:
            continue
    return {
        namespace: NamespaceLimits(
            tuple(quotas[namespace].values()),
            tuple(chain.from_iterable(ranges[namespace].values())),
        )
        for namespace in {*quotas, *ranges}
    }


def _key(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace or "default", metadata.name or ""
