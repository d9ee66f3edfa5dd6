"""Checks of container resources: names, quantities, limits, huge pages and claims."""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final

from webhook.api.formats import is_dns_label, is_qualified_name
from webhook.api.quantity import read_quantity
from webhook.api.review import DUPLICATE, FORBIDDEN, NOT_FOUND, REQUIRED
from webhook.validation.pods.families import LIMITS, QUANTITIES
from webhook.validation.pods.inspection import Pod, Way, entries, key, mapping, shown, text_of
from webhook.validation.pods.value_checks import DNS_LABEL_ADVICE, nearest

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_COMPUTE: Final = frozenset(("cpu", "memory"))
_PAGES: Final = "hugepages-"
_MILLI: Final = Decimal("0.001")


def resources(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report resources with unknown names, and amounts that contradict each other."""
    if type(value) is not dict:
        return
    limits, requests = value.get("limits"), value.get("requests")
    if limits == requests and type(limits) is dict:
        for name, amount in limits.items():
            _amount(name, amount, (*way, "limits"), pod)
        if not _COMPUTE & limits.keys():
            _pages(limits, limits, way, pod)
    else:
        limits, requests = mapping(limits), mapping(requests)
        _compare(limits, requests, way, pod)
    if value.get("claims"):
        _claims(value["claims"], (*way, "claims"), pod)


def overhead(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report an overhead of unknown resources, or with negative amounts."""
    for name, amount in mapping(value).items():
        _amount(name, amount, way, pod)


def _compare(limits: Mapping[str, Any], requests: Mapping[str, Any], way: Way, pod: Pod) -> None:
    for name, amount in limits.items():
        _amount(name, amount, (*way, "limits"), pod)
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not overcommitted(name) and _parsed(amount) is not None:
                text = f"request of {name} has no limit: set it to {shown(amount)}"
                pod.report(LIMITS, (*way, "requests", key(name)), text, REQUIRED)
            _amount(name, amount, (*way, "requests"), pod)
            continue
        if limit == amount:
            continue
        _amount(name, amount, (*way, "requests"), pod)
        asked, most = _parsed(amount), _parsed(limit)
        if asked is None or most is None or asked == most:
            continue
        place = (*way, "requests", key(name))
        both = f"request of {name} is {shown(amount)}, its limit {shown(limit)}"
        if not overcommitted(name):
            pod.report(LIMITS, place, f"{both}: make the two equal")
        elif asked > most:
            pod.report(LIMITS, place, f"{both}: lower the request or raise the limit")
    if not (_COMPUTE & limits.keys() or _COMPUTE & requests.keys()):
        _pages(limits, requests, way, pod)


def _pages(limits: Mapping[str, Any], requests: Mapping[str, Any], way: Way, pod: Pod) -> None:
    if any(name.startswith(_PAGES) for held in (limits, requests) for name in held):
        text = "hugepages need cpu or memory beside them: add one of the two"
        pod.report(LIMITS, way, text, FORBIDDEN)


def _amount(name: str, value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    if text := _problem(name, value) if type(value) in (str, int, float) else "":
        pod.report(QUANTITIES, (*way, key(name)), text)


@lru_cache(maxsize=4096)
def _problem(name: str, value: str | float) -> str:
    """Return the problem of an amount of a resource, or an empty string."""
    if not _known(name):
        near = nearest(name, _STANDARD)
        hint = f"did you mean {near}?" if near else "write cpu, memory or prefix/name"
        return f"there is no resource {shown(name)}: {hint}"
    amount = _parsed(value)
    if amount is None:
        return ""  # refused by the CRD's pattern
    if amount < 0:
        return f"{name} is {shown(value)}: write 0 or more"
    if _extended(name) and amount != amount.to_integral_value():
        return f"{name} is {shown(value)}: write a whole number"
    if name.startswith(_PAGES):
        size = _parsed(name.removeprefix(_PAGES))
        if not size or size < 1 or amount.to_integral_value(ROUND_CEILING) % size:
            return f"{name} is {shown(value)}: write a multiple of the page's size"
    return ""


@lru_cache(maxsize=1024)
def _known(name: str) -> bool:
    """Return whether a container may request a resource of this name."""
    if not is_qualified_name(name):
        return False
    if "/" not in name:
        return name in _STANDARD or name.startswith(_PAGES)
    return _native(name) or _extended(name)


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=1024)
def _extended(name: str) -> bool:
    """Return whether a resource is an extended one, such as those of device plugins.

    https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/apis/core/v1/helper/helpers.go
    (`IsExtendedResourceName`)
    """
    return (
        not _native(name)
        and not name.startswith("requests.")
        and is_qualified_name(f"requests.{name}")
    )


@lru_cache(maxsize=1024)
def overcommitted(name: str) -> bool:
    """Return whether the request of a resource may differ from its limit."""
    return _native(name) and not name.startswith(_PAGES)


@lru_cache(maxsize=4096)
def _parse(value: str | float) -> Decimal | None:
    amount = read_quantity(value)
    if amount is None or abs(amount) >= 10**15:
        return amount
    return amount.quantize(_MILLI, ROUND_CEILING)


def _parsed(value: object) -> Decimal | None:
    """Return an amount as the API server rounds it, or None if it is invalid."""
    return _parse(value) if isinstance(value, str | int | float) else None


def claims_of_pod(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report claims of devices that refer to no claim, or to two."""
    seen: set[str] = set()
    for index, claim in entries(value):
        name = text_of(claim, "name")
        if not is_dns_label(name):
            pod.wrong(QUANTITIES, (*way, index, "name"), name, DNS_LABEL_ADVICE)
        else:
            text = f"another claim is named {shown(name)}: rename one of them"
            pod.once(seen, name, QUANTITIES, (*way, index, "name"), text)
        sources = ("resourceClaimName", "resourceClaimTemplateName")
        if len([each for each in sources if claim.get(each) is not None]) != 1:
            pod.report(QUANTITIES, (*way, index), f"write one of {' and '.join(sources)}")


def _claims(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    seen: set[tuple[str, str]] = set()
    for index, claim in entries(value):
        name, request = text_of(claim, "name"), text_of(claim, "request")
        place = (*way, index)
        if name not in pod.claims:
            text = f"no claim is named {shown(name)}: add it to resourceClaims of the pod"
            pod.report(QUANTITIES, (*place, "name"), text, NOT_FOUND)
        if request and not is_dns_label(request):
            pod.wrong(QUANTITIES, (*place, "request"), request, DNS_LABEL_ADVICE)
        held = {each for each in seen if each[0] == name}
        if (name, request) in held or (held and (not request or (name, "") in held)):
            text = f"claim {shown(name)} is listed twice: keep one"
            pod.report(QUANTITIES, place, text, DUPLICATE)
        seen.add((name, request))


def pod_resources(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report resources of a whole pod other than cpu, memory and huge pages."""
    held = mapping(value)
    if held.get("claims") is not None:
        pod.report(QUANTITIES, (*way, "claims"), "a pod's resources have no claims", FORBIDDEN)
    limits, requests = mapping(held.get("limits")), mapping(held.get("requests"))
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name in amounts:
            if name not in _COMPUTE and not name.startswith(_PAGES):
                text = f"{name} cannot be given to a whole pod: give it to a container"
                pod.report(QUANTITIES, (*way, kind, key(name)), text)
    _compare(limits, requests, way, pod)
