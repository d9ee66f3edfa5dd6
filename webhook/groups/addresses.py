"""How much the addresses of a slice's hosts take, which every container of every host is given."""

from typing import Final

from webhook.groups.naming import headless_service, host_name

ADDED_MAX: Final = 1_000_000
"""Bytes that may be added to a pod. etcd stores no object above 1.5 MiB:
https://etcd.io/docs/latest/dev-guide/limit/
"""

_PORT: Final = len(":8471")


def addresses_size(
    group: str, cluster: str, hosts: int, *, service: str = "", replica: int = 0
) -> int:
    """Return the length of the addresses of all hosts of a replica, with a comma behind each: at
    most this many bytes.
    """
    service = service or headless_service(cluster)
    return (
        hosts * (len(host_name(group, replica, hosts - 1)) + len(service) + 2) if hosts > 1 else 0
    )


def added_size(addresses: int, hosts: int, containers: int, processes: int) -> int:
    """Return what the addresses add to a pod: in each container those of all hosts, and of all TPU
    processes of v7x hosts.
    """
    return containers * (addresses + processes * (addresses + hosts * _PORT))


def too_large(size: int, hosts: int, containers: int) -> str:
    """Return what to say of a pod to which too much would be added."""
    return (
        f"the addresses of {hosts} hosts in {containers} containers would add {size} bytes to "
        "each pod: use fewer of either"
    )
