"""What makes a replica impossible: names that cannot be host names, a slice whose hosts and chips do not add up.

All of it follows from the group, never from one host, so host 0 is refused already and no half replica comes up.
"""

from webhook.groups.naming import REPLICA_NAME_GROUP_MAX, host_name
from webhook.groups.topology import TopologyError, hosts_of
from webhook.kube import names
from webhook.kube.review import INVALID, Cause
from webhook.kube.shapes import DNS_LABEL_MAX, is_dns_label
from webhook.mutation.worker import Worker


def obstacles(worker: Worker) -> list[Cause]:
    """Return every reason why the replica of this multi-host worker could not work; none for a single host."""
    if worker.hosts == 1:
        return []
    return [*_names(worker), *_slice(worker)]


def _names(worker: Worker) -> list[Cause]:
    field = f"metadata.labels[{names.LABEL_GROUP}]"
    name = worker.name
    if len(name) > REPLICA_NAME_GROUP_MAX and worker.assigned:
        text = f"group name of {len(name)} characters: a multi-host group needs one of at most {REPLICA_NAME_GROUP_MAX}"
        return [Cause(INVALID, text, field)]
    last = host_name(name, worker.seat.replica, worker.hosts - 1)
    if len(last) > DNS_LABEL_MAX:
        text = f"host name {last} has {len(last)} characters, at most {DNS_LABEL_MAX} are possible: shorten the group name"
        return [Cause(INVALID, text, field)]
    if not is_dns_label(last):
        text = (
            f"group name {name!r} cannot be part of a host name, as a multi-host group needs: "
            f"use lower-case letters, digits and '-', and start with a letter or digit"
        )
        return [Cause(INVALID, text, field)]
    if not is_dns_label(worker.service):
        text = f"the headless service name {worker.service!r} is not a DNS label: shorten or correct the cluster name"
        return [Cause(INVALID, text, f"metadata.labels[{names.LABEL_CLUSTER}]")]
    return []


def _slice(worker: Worker) -> list[Cause]:
    if not worker.chips or not worker.topology:
        return []
    field = f"spec.nodeSelector[{names.NODE_TPU_TOPOLOGY}]"
    try:
        hosts = hosts_of(worker.topology, worker.chips)
    except TopologyError as error:
        return [Cause(INVALID, str(error), field)]
    if hosts == worker.hosts:
        return []
    text = (
        f"topology {worker.topology} has {hosts} hosts of {worker.chips} chips, but numOfHosts is {worker.hosts}: make them agree"
    )
    return [Cause(INVALID, text, field)]
