"""How much the webhook adds to a pod: each container is given variables, and those of a TPU slice
list every host of it, and every device.
"""

from collections.abc import Collection
from typing import Final

from webhook.accelerators.profiles import lists_devices
from webhook.accelerators.slices import Slice
from webhook.groups.naming import headless_service, host_name

ADDED_MAX: Final = 1_000_000
"""Bytes that may be added to a pod. etcd stores no object above 1.5 MiB:
https://etcd.io/docs/latest/dev-guide/limit/
"""

_PORT: Final = len(":65535")
_OTHERS: Final = 2_000
"""What the variables of a container that list nothing take at most, names and JSON included."""


_INDEX: Final = 9999
"""All replicas of a group are to fit alike, so no index counts for less than this one."""


def address_size(group: str, cluster: str, hosts: int, service: str = "") -> int:
    """Return the length of the address of a host with a comma behind it, at most."""
    if hosts <= 1:
        return len("localhost,")
    return len(f"{host_name(group, _INDEX, hosts - 1)}.{service or headless_service(cluster)},")


def listed(
    whole: Slice, hosts: int, chips: int, processes: int, profiles: Collection[str]
) -> tuple[int, int]:
    """Return of how many hosts each container is given the addresses, 1 for none, and how many
    addresses with a port of each: those of its TPU processes, and of its devices where a profile
    lists them. Without `chips` of a host nothing is listed.
    """
    if not chips:
        return 1, 0
    devices = whole.devices(chips) if lists_devices(profiles) and whole.readable else 0
    return hosts, processes + devices


def added_size(address: int, hosts: int, containers: int, endpoints: int) -> int:
    """Return how many bytes are added to a pod at most.

    `address` is the length of one; `hosts` and `endpoints` are what `listed` says.
    """
    host_names = hosts * address if hosts > 1 else 0
    return containers * (_OTHERS + host_names + endpoints * hosts * (address + _PORT))


def too_large(size: int, hosts: int, containers: int, endpoints: int) -> str:
    """Return what to say of a pod to which too much would be added."""
    count = hosts * endpoints + (hosts if hosts > 1 else 0)
    what = f"{count} addresses in {containers} containers" if count else f"{containers} containers"
    return f"variables for {what} add {size} bytes to a pod, above {ADDED_MAX}: use fewer"
