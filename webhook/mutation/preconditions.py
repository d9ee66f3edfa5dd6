"""Preconditions of a replica: valid host names, and a slice whose hosts and chips match.

All of them depend on the group, never on a host, so that host 0 is denied already and no incomplete
replica starts.

See docs/contributing/decisions/0011-topology-mismatch-refuses-the-pod.md.
"""

from typing import Final

from webhook.accelerators.slices import TopologyError, advice, hosts_of
from webhook.api import names
from webhook.api.formats import DNS_LABEL_MAX, is_dns_label, shorten
from webhook.api.objects import PodSpec
from webhook.api.review import INVALID, Cause, Denied
from webhook.groups.naming import (
    ADDED_MAX,
    REPLICA_NAME_GROUP_MAX,
    address_size,
    compute_added_size,
    count_addresses,
    host_name,
    too_large,
)
from webhook.mutation.ray_pod import Replica

_SIZE: Final = "variables-too-large"


def require_few_containers(spec: PodSpec, group: str) -> None:
    """Raise Denied for a pod with more containers than can have variables, before any is read: a
    pod of 3 MB may have 100,000, which would hold the event loop for a second.
    """
    containers = len(spec.containers or ()) + len(spec.init_containers or ())
    problem = _excess(compute_added_size(0, 1, containers, 0), 1, containers, 0)
    if problem is not None:
        raise Denied(_cause(_SIZE, group, problem), rules=(_SIZE,))


def unmet_preconditions(replica: Replica) -> dict[str, Cause]:
    """Return every unmet precondition of a replica, by the validation rule that reports the same
    problem for its RayCluster.
    """
    problems_by_rule = {_SIZE: _size(replica)}
    if replica.needs_names:
        host_problems = {
            "group-name-no-host-name": _names(replica),
            "tpu-topology-mismatch": _slice(replica),
        }
        problems_by_rule = host_problems | problems_by_rule
    return {
        rule: _cause(rule, replica.group_name, problem)
        for rule, problem in problems_by_rule.items()
        if problem is not None
    }


def _cause(rule: str, group: str, problem: tuple[str, str]) -> Cause:
    message, field = problem
    return Cause(INVALID, f'worker group "{shorten(group)}": {message} [{rule}]', field)


def _names(replica: Replica) -> tuple[str, str] | None:
    """Return why the host name is invalid, and the field that causes it."""
    group, service = replica.group_name, replica.service
    last = host_name(group, replica.index, replica.hosts - 1)
    field = f"metadata.labels[{names.LABEL_GROUP}]"
    # An assigned name becomes a label value; a name that the pod carries fits already.
    if replica.hosts > 1 and replica.holder and len(group) > REPLICA_NAME_GROUP_MAX:
        message = (
            f"groupName has {len(group)} characters: use at most {REPLICA_NAME_GROUP_MAX} with "
            "numOfHosts above 1"
        )
    elif len(last) > DNS_LABEL_MAX:
        message = (
            f"host name {last} has {len(last)} characters, above {DNS_LABEL_MAX}: shorten "
            "groupName, or lower maxReplicas"
        )
    elif not is_dns_label(last):
        message = (
            f"{group!r} cannot be part of a host name: use letters, digits and '-' only, and begin "
            "with a letter or digit"
        )
    elif not is_dns_label(service):
        message = (
            f"the headless Service {service!r} has no valid name: shorten or correct the name of "
            "the RayCluster"
        )
        field = f"metadata.labels[{names.LABEL_CLUSTER}]"
    else:
        return None
    return message, field


def _slice(replica: Replica) -> tuple[str, str] | None:
    """Return the mismatch of a TPU slice, and its field; None for an unknown slice, and if checks
    are disabled.
    """
    topology, chips, hosts = replica.slice.topology, replica.chips, replica.hosts
    # Before KubeRay had numOfHosts, slices were written as single-host replicas, and some still
    # run.
    if hosts == 1 or not chips or not topology or replica.slice.unchecked:
        return None
    if replica.slice.annotated:
        field = f"metadata.annotations[{names.ANNOTATION_SLICE_TOPOLOGY}]"
    else:
        field = f"spec.nodeSelector[{names.NODE_TPU_TOPOLOGY}]"
    try:
        count = hosts_of(topology, chips)
    except TopologyError as error:
        return str(error), field
    if count == hosts:
        return None
    other = advice(replica.slice.generation, chips * hosts, "change the topology")
    message = (
        f"numOfHosts is {hosts}, but topology {topology} with {chips} chips per host has {count}: "
        f"set it to {count}, or {other}"
    )
    return message, field


def _size(replica: Replica) -> tuple[str, str] | None:
    """Return the problem if the variables would make the pod larger than the API server's limit."""
    chips, profiles = 0 if replica.head else replica.chips, replica.profiles(of_slice=True)
    processes = len(replica.processes)
    hosts, endpoints = count_addresses(
        replica.slice, replica.hosts, chips=chips, processes=processes, profiles=profiles
    )
    containers = len(replica.slots)
    address = address_size(replica.group_name, replica.cluster.name, hosts, replica.service)
    return _excess(
        compute_added_size(address, hosts, containers, endpoints), hosts, containers, endpoints
    )


def _excess(size: int, hosts: int, containers: int, endpoints: int) -> tuple[str, str] | None:
    if size <= ADDED_MAX:
        return None
    return too_large(size, hosts, containers, endpoints), "spec.containers"
