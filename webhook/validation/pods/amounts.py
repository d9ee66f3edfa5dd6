"""Checks of container resources: names, quantities, limits, huge pages and claims."""

import re
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal
from typing import Final

from webhook.api.formats import is_dns_label, is_qualified_name
from webhook.api.quantity import read_quantity
from webhook.api.review import FORBIDDEN, NOT_FOUND, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.inspection import InspectedPod, format_value
from webhook.validation.pods.value_checks import DNS_LABEL_ADVICE, check_names, suggestion

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_DEVICES: Final = {"gpu": "nvidia.com/gpu", "tpu": "google.com/tpu"}
"""Resources of devices by their names without a prefix."""
_COMPUTE: Final = frozenset(("cpu", "memory"))
_KINDS: Final = ("limits", "requests")
_PAGES: Final = "hugepages-"
_PATTERNS: Final = {
    **dict.fromkeys(_STANDARD, re.compile(r"[0-9]{1,15}(?:m|[KMGT]i?)?", re.ASCII)),
    **dict.fromkeys(_DEVICES.values(), re.compile(r"[0-9]{1,15}", re.ASCII)),
}
"""By resource, the amounts that most containers have, and that need no arithmetic."""
_MILLI: Final = Decimal("0.001")


def amounts(listed: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report unknown resources and impossible amounts. An amount that the limits have too is
    reported there.
    """
    limits = (listed.holder / "limits").map if listed.called == "requests" else {}
    for name, value in listed.map.items() if limits != listed.value else ():
        if type(value) not in (str, int, float) or limits.get(name) == value:
            continue
        if not _is_plain(name, value) and (problem := _problem(name, value)):
            yield Fault(listed.key(name), problem)


def limits(resources: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report amounts that contradict each other."""
    most, least = (resources / kind for kind in _KINDS)
    equal = least.value == most.value
    for name, amount in () if equal else least.map.items():
        limit, fixed = most.map.get(name), not _can_overcommit(name)
        request_amount, allowed = _parse_amount(amount), _parse_amount(limit)
        if limit is None and fixed and request_amount is not None:
            message = f"request of {name} has no limit: set it to {format_value(amount)}"
            yield Fault(least.key(name), message, REQUIRED)
        elif request_amount is None or allowed is None:
            continue
        elif request_amount > allowed or (fixed and request_amount < allowed):
            both = f"request of {name} is {format_value(amount)}, its limit {format_value(limit)}"
            advice = "make the two equal" if fixed else "lower the request or raise the limit"
            yield Fault(least.key(name), f"{both}: {advice}")
    names = most.map.keys() | least.map.keys()
    if not _COMPUTE & names and any(name.startswith(_PAGES) for name in names):
        message = "hugepages need cpu or memory beside them: add one of the two"
        yield Fault(resources, message, FORBIDDEN)


def _is_plain(name: str, value: str | float) -> bool:
    """Return whether an amount is one of those that most containers have, which are valid."""
    pattern = _PATTERNS.get(name)
    return pattern is not None and type(value) is str and pattern.fullmatch(value) is not None


def _problem(name: str, value: str | float) -> str:
    """Return the problem of an amount of a resource, or an empty string."""
    if not _known(name):
        hint = suggestion(name, _STANDARD, "write cpu, memory or prefix/name")
        if name.lower() in _DEVICES:
            hint = f"did you mean {_DEVICES[name.lower()]}?"
        return f"there is no resource {format_value(name)}: {hint}"
    amount = _parse_amount(value)
    if amount is None:
        return ""  # refused by the CRD's pattern
    if amount < 0:
        return f"{name} is {format_value(value)}: write 0 or more"
    if _is_extended(name) and amount != amount.to_integral_value():
        return f"{name} is {format_value(value)}: write a whole number"
    if name.startswith(_PAGES):
        size = _parse_amount(name.removeprefix(_PAGES))
        if not size or size < 1 or amount.to_integral_value(ROUND_CEILING) % size:
            return f"{name} is {format_value(value)}: write a multiple of the page's size"
    return ""


def _known(name: str) -> bool:
    """Return whether a container may request a resource of this name."""
    if not is_qualified_name(name):
        return False
    if "/" not in name:
        return name in _STANDARD or name.startswith(_PAGES)
    return _native(name) or _is_extended(name)


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, such as those of device plugins.

    https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/apis/core/v1/helper/helpers.go
    (`IsExtendedResourceName`)
    """
    return (
        not _native(name)
        and not name.startswith("requests.")
        and is_qualified_name(f"requests.{name}")
    )


def _can_overcommit(name: str) -> bool:
    """Return whether the request of a resource may differ from its limit."""
    return _native(name) and not name.startswith(_PAGES)


def _parse(value: str | float) -> Decimal | None:
    amount = read_quantity(value)
    if amount is None or abs(amount) >= 10**15:
        return amount
    return amount.quantize(_MILLI, ROUND_CEILING)


def _parse_amount(value: object) -> Decimal | None:
    """Return an amount as the API server rounds it, or None if it is invalid."""
    return _parse(value) if isinstance(value, str | int | float) else None


def claims_of_pod(claims: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report claims of devices that refer to no claim, or to two."""
    yield from check_names(claims, "claim", is_dns_label, DNS_LABEL_ADVICE)
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for claim in claims.entries():
        if len([name for name in sources if (claim / name).given]) != 1:
            yield Fault(claim, f"write one of {' and '.join(sources)}")


def claims_of_container(claims: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report claims that the pod does not have."""
    claim_names = {
        (resource_claim / "name").text for resource_claim in (pod.spec / "resourceClaims").entries()
    }
    for claim in claims.entries():
        name = (claim / "name").text
        if name not in claim_names:
            message = f"no claim is named {format_value(name)}: add it to resourceClaims of the pod"
            yield Fault(claim / "name", message, NOT_FOUND)


def pod_resources(resources: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report resources of a whole pod other than cpu, memory and huge pages."""
    for kind in _KINDS:
        for name in (resources / kind).map:
            if name not in _COMPUTE and not name.startswith(_PAGES):
                message = f"{name} cannot be given to a whole pod: give it to a container"
                yield Fault((resources / kind).key(name), message)
