"""The rule of LimitRanges: pods that the API server refuses, whatever else exists."""

from collections.abc import Iterator

from webhook.api.formats import shorten
from webhook.api.namespace_limits import (
    CONTAINER,
    LimitRangeItem,
    NamespaceLimits,
    Thousandths,
    format_amount,
)
from webhook.validation.finding import Fault
from webhook.validation.growth import Growth
from webhook.validation.pod_amounts import PodAmounts


def limit_range_violated(growth: Growth) -> Iterator[Fault]:
    """Pods that a LimitRange of the namespace refuses, whatever else exists.

    A container or pod is above its maximum or below its minimum, has no amount where one is
    required, has a limit too far above its request, or a request above the limit that the
    LimitRange sets by default. The API server refuses the pods, and KubeRay tries to create them
    without end. `validate` takes LimitRanges from among its files.

    https://kubernetes.io/docs/concepts/policy/limit-range/
    """
    limits = growth.limits
    for template in growth.distinct if limits.limits or limits.default else ():
        if problem := next(_refusals(template.amounts, limits), ""):
            yield Fault(template.field, f"the pods can never be created: {problem}")


def _refusals(pod: PodAmounts, every: NamespaceLimits) -> Iterator[str]:
    """Yield the reasons why the API server refuses a pod: a request above a default limit, then
    LimitRanges.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/limitranger/admission.go
    (`PodValidateLimitFunc`)
    """
    for container in pod.containers:
        for name in every.default:
            amount, limit = container.requests[name], container.limits[name]
            if amount > limit:
                problem = f"a {shorten(name)} request of {format_amount(name, amount)}"
                above = f"above its limit of {format_amount(name, limit)}"
                yield f"container {container.name} has {problem}, {above}"
    for limits in every.limits:
        if limits.type == CONTAINER:
            for container in pod.containers:
                for problem in _outside(limits, container.requests, container.limits):
                    yield f"container {container.name} has {problem}"
        else:
            yield from (
                f"each has {problem}" for problem in _outside(limits, pod.requests, pod.limits)
            )


def _outside(
    limit_range: LimitRangeItem, requests: Thousandths, limits: Thousandths
) -> Iterator[str]:
    """Yield the amounts outside of a LimitRange, each with its bound."""
    of = f"LimitRange {shorten(limit_range.name)}"
    amounts_of = {"limit": limits, "request": requests}
    for bounds, sign, required, demand in (
        (limit_range.max, 1, "limit", "allows at most"),
        (limit_range.min, -1, "request", "requires at least"),
    ):
        for name, bound in bounds.items():
            requirement = f"{of} {demand} {format_amount(name, bound)}"
            if name not in amounts_of[required]:
                yield f"no {shorten(name)} {required}, and {requirement}"
            for kind, amounts in amounts_of.items():
                amount = amounts.get(name, bound)
                if amount * sign > bound * sign:
                    shown_amount = format_amount(name, amount)
                    yield f"a {shorten(name)} {kind} of {shown_amount}, and {requirement}"
    for name, ratio in limit_range.ratio.items():
        request, limit = requests.get(name, 0), limits.get(name, 0)
        if not request or not limit or limit * 1000 > ratio * request:
            bound_text = f"{of} allows {ratio / 1000:g} times its request"
            yield f"a {shorten(name)} limit that is too high or missing, and {bound_text}"
