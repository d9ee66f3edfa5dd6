"""The size of what the webhook adds to a pod: variables in each container, which list every host
and every device of a TPU slice.
"""

from collections.abc import Collection
from typing import Final

from webhook.accelerators.profiles import lists_devices
from webhook.accelerators.slices import Slice
from webhook.groups.naming import headless_service, host_name

ADDED_MAX: Final = 1_000_000
"""Bytes that may be added to a pod. etcd stores objects of up to 1.5 MiB:
https://etcd.io/docs/latest/dev-guide/limit/
"""

_PORT: Final = len(":65535")
_OTHERS: Final = 2_000
"""Maximum bytes of the other variables of a container, including names and JSON."""


_INDEX: Final = 9999
"""The index for which addresses are computed, so that all replicas of a group have the same
size.
"""


def address_size(group: str, cluster: str, hosts: int, service: str = "") -> int:
    """Return the maximum length of the address of a host, including a comma."""
    if hosts <= 1:
        return len("localhost,")
    return len(f"{host_name(group, _INDEX, hosts - 1)}.{service or headless_service(cluster)},")


def listed(
    whole: Slice, hosts: int, chips: int, processes: int, profiles: Collection[str]
) -> tuple[int, int]:
    """Return the number of host addresses in each container (1 if none are listed), and the number
    of addresses with a port: those of TPU processes, and of devices if a profile lists them.
    Without `chips` per host, no addresses are listed.
    """
    if not chips:
        return 1, 0
    devices = whole.devices(chips) if lists_devices(profiles) and whole.readable else 0
    return hosts, processes + devices


def added_size(address: int, hosts: int, containers: int, endpoints: int) -> int:
    """Return the maximum number of bytes added to a pod.

    `address` is the length of an address; `hosts` and `endpoints` are the results of `listed`.
    """
    host_names = hosts * address if hosts > 1 else 0
    return containers * (_OTHERS + host_names + endpoints * hosts * (address + _PORT))


def too_large(size: int, hosts: int, containers: int, endpoints: int) -> str:
    """Return the message for a pod that would become too large."""
    count = hosts * endpoints + (hosts if hosts > 1 else 0)
    what = f"{count} addresses in {containers} containers" if count else f"{containers} containers"
    return f"variables for {what} add {size} bytes to a pod, above {ADDED_MAX}: use fewer"
