"""Rules of the amounts that jobs and Serve deployments demand of a node."""

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Final

from webhook.api.formats import shorten
from webhook.validation.capacity import CPU, GPU, MEMORY, Amounts, NodeCapacities, read_nodes
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Job, RayObject

_ACTOR: Final = {"num_cpus": CPU, "num_gpus": GPU, "memory": MEMORY}
_ENTRYPOINT: Final = {"entrypointNumCpus": CPU, "entrypointNumGpus": GPU}
_RESOURCES: Final = "entrypointResources"
_ALL_MAX: Final = 1000
"""Number of bundles of a deployment that are read."""
_LONGEST: Final = 40
_STRICT_PACK: Final = "STRICT_PACK"
_STRICT_SPREAD: Final = "STRICT_SPREAD"


def demand_above_nodes(ray_object: RayObject) -> Iterator[Fault]:
    """An entrypoint or a deployment that demands more of a node than the head and all worker groups
    offer.

    It waits without end, and autoscaling does not help, since a new node has the shape of its
    group. A node offers the amounts in `rayStartParams` or the `resources` of its group, else those
    of Ray's container, with cores rounded up. A group of unknown amounts offers anything.

    https://docs.ray.io/en/latest/ray-core/scheduling/resources.html
    """
    job, service, cluster = ray_object.job, ray_object.service, ray_object.cluster
    if cluster is None or (job is not None and job.selects):
        return
    demands = [*_of_job(job)] if job else []
    deployments = [*service.deployments()] if service else []
    nodes = read_nodes(cluster) if demands or deployments else None
    if nodes is None:
        return
    yield from _above(demands, None, nodes)
    for deployment in deployments:
        yield from _of_deployment(deployment, nodes)


_Demands = list[tuple[Field, str, Decimal]]
"""The fields of a demand, each with the name of the resource and the amount."""


def _of_job(job: Job) -> Iterator[tuple[Field, str, Decimal]]:
    """Yield the demands of the entrypoint of a RayJob."""
    for name, resource in _ENTRYPOINT.items():
        yield from _demand(job.field / name, resource)
    field = job.field / _RESOURCES
    try:
        value = json.loads(field.text) if 0 < len(field.text) <= _LONGEST * 100 else None
    except (ValueError, RecursionError):
        return  # a rule of RayJobs reports it
    for name, number in value.items() if isinstance(value, dict) else ():
        if not isinstance(number, str) and (amount := _amount(number)):
            yield field, name, amount


def _demand(field: Field, resource: str) -> Iterator[tuple[Field, str, Decimal]]:
    if amount := _amount(field.value):
        yield field, resource, amount


def _amount(value: object) -> Decimal | None:
    """Return a finite number above 0, which Ray also reads from text; a bool is not a number."""
    if not isinstance(value, int | float | str):
        return None
    number_text = str(value)
    try:
        amount = Decimal(number_text if len(number_text) <= _LONGEST else "")
    except ArithmeticError:
        return None
    return amount if amount.is_finite() and amount > 0 else None


def _of_deployment(deployment: Field, nodes: NodeCapacities) -> Iterator[Fault]:
    options = deployment / "ray_actor_options"
    actor = [*_of_actor(options)]
    bundles = [*islice((deployment / "placement_group_bundles").entries(), _ALL_MAX)]
    if not bundles:
        yield from _above(actor, options, nodes)
        yield from _of_type(options / "accelerator_type", nodes)
        yield from _per_node(deployment, _sum_demands(actor), nodes)
        return
    demands = [[*_of_bundle(bundle)] for bundle in bundles]
    has_fault = False
    for bundle, demand in zip(bundles, demands, strict=True):
        for fault in _above(demand, bundle, nodes):
            has_fault = True
            yield fault
    if has_fault:
        return
    field, strategy = (
        deployment / "placement_group_bundles",
        deployment / "placement_group_strategy",
    )
    together = [resource_demand for demand in demands for resource_demand in demand]
    if strategy.text == _STRICT_PACK and not nodes.holds(_sum_demands(together)):
        problem = f"no node holds all {len(bundles)} bundles together"
        yield Fault(field, f"{problem}: write PACK, or give a worker group more")
    least = min((nodes.count(_sum_demands(demand)) for demand in demands), default=0)
    if strategy.text == _STRICT_SPREAD and len(bundles) > least:
        problem = (
            f"{len(bundles)} bundles on nodes of their own, and the cluster has at most {least}"
        )
        yield Fault(field, f"{problem}: write SPREAD, or add nodes")


def _of_actor(options: Field) -> Iterator[tuple[Field, str, Decimal]]:
    for name, resource in _ACTOR.items():
        yield from _demand(options / name, resource)
    resources = options / "resources"
    for name in resources.map:
        yield from _demand(resources.key(name), name)


def _of_bundle(bundle: Field) -> Iterator[tuple[Field, str, Decimal]]:
    for name in bundle.map:
        yield from _demand(bundle / name, name)


def _sum_demands(demands: _Demands) -> Amounts:
    total: dict[str, Decimal] = {}
    for _, resource, amount in demands:
        total[resource] = total.get(resource, Decimal()) + amount
    return total


def _above(demands: _Demands, holder: Field | None, nodes: NodeCapacities) -> Iterator[Fault]:
    """Yield the amounts that are above those of all nodes, or else the holder of a demand that no
    node holds as a whole.
    """
    advice = "lower it, or give a worker group more"
    has_fault = False
    for field, resource, amount in demands:
        most = nodes.largest(resource)
        if most is not None and amount > most:
            has_fault = True
            resource_suffix = (
                "" if resource in field.called or field.token in _NAMED else f" {shorten(resource)}"
            )
            offer = f"no node has more than {_format_amount(most)}" if most else "no node has any"
            yield Fault(field, f"{_format_amount(amount)}, but {offer}{resource_suffix}: {advice}")
    if not has_fault and demands and not nodes.holds(_sum_demands(demands)):
        listed = ", ".join(
            f"{_format_amount(amount)} {shorten(name)}"
            for name, amount in _sum_demands(demands).items()
        )
        yield Fault(
            holder or demands[0][0], f"no node has all of {shorten(listed)} together: {advice}"
        )


_NAMED: Final = {*_ACTOR, *_ENTRYPOINT}
"""Fields whose names contain that of the resource."""


def _format_amount(amount: Decimal) -> str:
    return shorten(f"{amount.normalize():f}")


def _of_type(field: Field, nodes: NodeCapacities) -> Iterator[Fault]:
    """Yield a type of accelerator if no node can have any. Ray finds the type on the node."""
    if field.text and nodes.largest(f"accelerator_type:{field.text}") is not None:
        problem = f"no node has an accelerator: request {shorten(field.text)} in a worker group"
        yield Fault(field, f"{problem}, or remove it")


def _per_node(deployment: Field, demand: Amounts, nodes: NodeCapacities) -> Iterator[Fault]:
    """Yield a maximum of replicas on each node with which not all of them find a place."""
    field, fixed = deployment / "max_replicas_per_node", deployment / "num_replicas"
    least = deployment / "autoscaling_config" / "min_replicas"
    replicas = _amount(fixed.value) if fixed.value != "auto" else None
    name, replicas = (
        ("num_replicas", replicas) if replicas else ("min_replicas", _amount(least.value))
    )
    most, number = _amount(field.value), nodes.count(demand)
    if replicas and most and replicas > most * number:
        count = f"{number} node{'' if number == 1 else 's'}"
        problem = (
            f"{_format_amount(most)}, but {name} is {_format_amount(replicas)} "
            f"and the cluster has at most {count}"
        )
        yield Fault(field, f"{problem}: raise it, or add nodes")
