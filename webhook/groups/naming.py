"""Names derived from an identity: host names, headless service, replica names, slice names."""

from hashlib import blake2b
from typing import Final

from webhook.api.formats import LABEL_VALUE_MAX

# The letters of Kubernetes' generated suffixes: no vowels, and no similar letters.
# https://github.com/kubernetes/apimachinery/blob/master/pkg/util/rand/rand.go
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
"""Characters of a replica name after the name of the group and a hyphen."""

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
    return f"{f'{cluster}-{group}'[:_POD_PREFIX_MAX]}-worker-".lower()


def replica_name(group: str, request_uid: str, attempt: int = 0) -> str:
    """Return `<group>-<5 characters>` in the format of KubeRay, deterministic for the request."""
    digest = int.from_bytes(
        blake2b(f"{request_uid}/{attempt}".encode(), digest_size=8).digest(), "big"
    )
    letters = []
    for _ in range(SUFFIX_LENGTH):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return f"{group}-{''.join(letters)}"


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
