"""The rule of LimitRanges: pods that the API server refuses, whatever else exists."""

from collections.abc import Iterator

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
                amount_text, most = format_amount(name, amount), format_amount(name, limit)
                yield (
                    f"container {container.name} has a {name[:63]} request of {amount_text}, "
                    f"above its limit of {most}"
                )
    for limits in every.limits:
        if limits.type == CONTAINER:
            for container in pod.containers:
                for problem in _outside(limits, container.requests, container.limits):
                    yield f"container {container.name} has {problem}"
        else:
            yield from (
                f"each has {problem}" for problem in _outside(limits, pod.requests, pod.limits)
            )


def _outside(limits: LimitRangeItem, requests: Thousandths, most: Thousandths) -> Iterator[str]:
    """Yield the amounts outside of a LimitRange, each with its bound."""
    of = f"LimitRange {limits.name[:63]}"
    kinds = (("limit", most), ("request", requests))
    for name, bound in limits.max.items():
        requirement = f"{of} allows at most {format_amount(name, bound)}"
        if name not in most:
            yield f"no {name[:63]} limit, and {requirement}"
        for kind, amounts in kinds:
            if amounts.get(name, bound) > bound:
                amount = format_amount(name, amounts[name])
                yield f"a {name[:63]} {kind} of {amount}, and {requirement}"
    for name, bound in limits.min.items():
        requirement = f"{of} requires at least {format_amount(name, bound)}"
        if name not in requests:
            yield f"no {name[:63]} request, and {requirement}"
        for kind, amounts in kinds:
            if amounts.get(name, bound) < bound:
                amount = format_amount(name, amounts[name])
                yield f"a {name[:63]} {kind} of {amount}, and {requirement}"
    yield from _ratios(limits, requests, most)


def _ratios(limits: LimitRangeItem, requests: Thousandths, most: Thousandths) -> Iterator[str]:
    for name, ratio in limits.ratio.items():
        request, limit = requests.get(name, 0), most.get(name, 0)
        if not request or not limit or limit * 1000 > ratio * request:
            bound = f"LimitRange {limits.name[:63]} allows {ratio / 1000:g} times its request"
            yield f"a {name[:63]} limit that is too high or missing, and {bound}"
