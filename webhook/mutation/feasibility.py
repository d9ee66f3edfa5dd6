"""What makes a replica impossible: names that cannot be host names, a slice whose hosts and chips
do not add up.

All of it follows from the group, never from one host, so host 0 is refused already and no half
replica comes up.

See docs/decisions/0011-topology-mismatch-refuses-the-pod.md.
"""

from webhook.accelerators.devices import TPU
from webhook.accelerators.topology import TopologyError, hosts_of
from webhook.groups.addresses import ADDED_MAX, added_size, address_size, listed, too_large
from webhook.groups.naming import REPLICA_NAME_GROUP_MAX, host_name
from webhook.kube import names
from webhook.kube.review import INVALID, Cause
from webhook.kube.shapes import DNS_LABEL_MAX, is_dns_label
from webhook.mutation.worker import Replica


def obstacles(replica: Replica) -> tuple[Cause, ...]:
    """Return every reason why this replica could not work."""
    named = _names(replica) + _slice(replica) if replica.needs_names else ()
    return named + _size(replica)


def _names(replica: Replica) -> tuple[Cause, ...]:
    group, service = replica.group_name, replica.service
    last = host_name(group, replica.index, replica.hosts - 1)
    field = f"metadata.labels[{names.LABEL_GROUP}]"
    if replica.hosts > 1 and replica.assigned and len(group) > REPLICA_NAME_GROUP_MAX:
        text = (
            f"group name of {len(group)} characters: a multi-host group needs one of at most "
            f"{REPLICA_NAME_GROUP_MAX}"
        )
    elif len(last) > DNS_LABEL_MAX:
        text = (
            f"host name {last} has {len(last)} characters, at most {DNS_LABEL_MAX} are possible: "
            "shorten the group name"
        )
    elif not is_dns_label(last):
        text = (
            f"group name {group!r} cannot be part of a host name, by which other hosts reach this "
            "one: "
            f"use lower-case letters, digits and '-', and start with a letter or digit"
        )
    elif not is_dns_label(service):
        text = (
            f"the headless service name {service!r} is not a DNS label: shorten or correct the "
            "cluster name"
        )
        field = f"metadata.labels[{names.LABEL_CLUSTER}]"
    else:
        return ()
    return (Cause(INVALID, text, field),)


def _slice(replica: Replica) -> tuple[Cause, ...]:
    """Return what does not add up in a TPU slice; nothing when nobody says which slice it is, or
    wants no checks.
    """
    topology, chips, hosts = replica.slice.topology, replica.count(TPU), replica.hosts
    if hosts == 1 or not chips or not topology or replica.slice.unchecked:
        return ()
    if replica.slice.annotated:
        field = f"metadata.annotations[{names.ANNOTATION_SLICE_TOPOLOGY}]"
    else:
        field = f"spec.nodeSelector[{names.NODE_TPU_TOPOLOGY}]"
    try:
        found = hosts_of(topology, chips)
    except TopologyError as error:
        return (Cause(INVALID, str(error), field),)
    if found == hosts:
        return ()
    text = (
        f"topology {topology} has {found} hosts of {chips} chips, but numOfHosts is {hosts}: make "
        "them agree"
    )
    return (Cause(INVALID, text, field),)


def _size(replica: Replica) -> tuple[Cause, ...]:
    """Return that its variables would make the pod larger than the API server stores."""
    chips, profiles = 0 if replica.head else replica.count(TPU), replica.cluster.profiles
    processes = len(replica.processes)
    hosts, endpoints = listed(replica.slice, replica.hosts, chips, processes, profiles)
    containers = len(replica.slots)
    address = address_size(replica.group_name, replica.cluster.name, hosts, replica.service)
    size = added_size(address, hosts, containers, endpoints)
    if size <= ADDED_MAX:
        return ()
    return (Cause(INVALID, too_large(size, hosts, containers, endpoints), "spec.containers"),)
