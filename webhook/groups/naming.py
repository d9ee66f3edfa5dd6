"""Names derived from an identity: host names, headless service, replica names, slice names."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from webhook.accelerators.profiles import Profile, list_devices
from webhook.accelerators.slices import Slice
from webhook.api.formats import LABEL_VALUE_MAX

# The letters of Kubernetes' generated suffixes: no vowels, and no similar letters.
# https://github.com/kubernetes/apimachinery/blob/master/pkg/util/rand/rand.go
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxyz0123456789"
SUFFIX_LENGTH: Final = 5
"""Characters of a replica name after the name of the group and a hyphen, and of a generated name
after its prefix.
"""
GENERATED_BASE_MAX: Final = 58
"""Characters of `generateName` that the API server uses."""

REPLICA_NAME_GROUP_MAX: Final = LABEL_VALUE_MAX - 1 - SUFFIX_LENGTH
"""Characters of a group name that leave room for `-xxxxx` in a label value."""

# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
# (`PodName`)
_POD_PREFIX_MAX: Final = 50
"""Characters of `<cluster>-<group>` that KubeRay keeps in pod names."""


def pod_prefix(cluster: str, group: str | None) -> str:
    """Return the prefix of the pod names of a group, or of the head for None; five characters
    follow. KubeRay truncates a long prefix at the end, which may remove the group.
    """
    if group is None:
        return f"{cluster[:_POD_PREFIX_MAX]}-head-".lower()
    # Pod names are DNS names, and names of groups may have upper case.
    return f"{f'{cluster}-{group}'[:_POD_PREFIX_MAX]}-worker-".lower()


def replica_name(group: str, request_uid: str, attempt: int = 0) -> str:
    """Return `<group>-<5 characters>` in the format of KubeRay, deterministic for the request."""
    return f"{group}-{_suffix(f'{request_uid}/{attempt}')}"


def generate_name(prefix: str) -> str:
    """Return a name that the API server could generate from `generateName`, the same at each call.

    https://github.com/kubernetes/apiserver/blob/master/pkg/storage/names/generate.go
    """
    return prefix[:GENERATED_BASE_MAX] + _suffix(prefix)


def _suffix(seed: str) -> str:
    digest = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(SUFFIX_LENGTH):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)


def is_suffix(text: str) -> bool:
    """Return whether a text has the format of the end of a replica name: letters without vowels,
    and digits.
    """
    return len(text) == SUFFIX_LENGTH and not text.strip(_SUFFIX_LETTERS)


def host_prefix(group: str, replica: int) -> str:
    """Return the prefix of the host names of a replica; host names are lower case, unlike group
    names.
    """
    return f"{group.lower()}-{replica}-"


def host_name(group: str, replica: int, host: int) -> str:
    """Return the host name of an identity."""
    return f"{host_prefix(group, replica)}{host}"


# https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/kubelet/util/util.go
# (`GetNodenameForKernel`)
_NODENAME_MAX: Final = 64


def long_nodename(host: str, service: str, namespace: str) -> str:
    """Return the problem of a pod with `setHostnameAsFQDN` whose name is too long for the kernel,
    or an empty text. The cluster domain is assumed to be Kubernetes' default.
    """
    name = f"{host}.{service}.{namespace}.svc.cluster.local"
    if len(name) <= _NODENAME_MAX:
        return ""
    return (
        f"the FQDN has {len(name)} characters, at most {_NODENAME_MAX} are possible: remove it, or "
        "shorten names"
    )


def slice_name(group: str, replica: int) -> str:
    """Return the name of a replica in Ray and its autoscaler (v1): `<group>-<replica>`."""
    return f"{group}-{replica}"


def headless_service(cluster: str) -> str:
    """Return the name of the headless service that KubeRay 1.4+ creates for multi-host clusters; it
    is not truncated.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    (`BuildHeadlessServiceForRayCluster`)
    """
    return f"{cluster}-headless"


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


def count_addresses(
    whole: Slice, hosts: int, chips: int, processes: int, profiles: Iterable[Profile]
) -> tuple[int, int]:
    """Return the number of host addresses in each container (1 if none are listed), and the number
    of addresses with a port: those of TPU processes, and of devices if one of the `profiles` of the
    slice lists them. Without `chips` per host, no addresses are listed.
    """
    if not chips:
        return 1, 0
    devices = whole.devices(chips) if whole.readable and list_devices(profiles) else 0
    return hosts, processes + devices


def compute_added_size(address: int, hosts: int, containers: int, endpoints: int) -> int:
    """Return the maximum number of bytes added to a pod.

    `address` is the length of an address; `hosts` and `endpoints` are the results of
    `count_addresses`.
    """
    host_names = hosts * address if hosts > 1 else 0
    return containers * (_OTHERS + host_names + endpoints * hosts * (address + _PORT))


def too_large(size: int, hosts: int, containers: int, endpoints: int) -> str:
    """Return the message for a pod that would become too large."""
    count = hosts * endpoints + (hosts if hosts > 1 else 0)
    counted_objects = (
        f"{count} addresses in {containers} containers" if count else f"{containers} containers"
    )
    return (
        f"variables for {counted_objects} add {size} bytes to a pod, above {ADDED_MAX}: use fewer"
    )
