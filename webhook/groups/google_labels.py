"""Identities assigned by Google's webhook for TPUs: label `replicaIndex`, and `TPU_WORKER_ID`.

https://github.com/ai-on-gke/kuberay-tpu-webhook/blob/main/main.go (`mutatePod`)

See docs/contributing/decisions/0001-adopting-pods-of-a-previous-webhook.md.
"""

from sys import intern
from typing import Final

from webhook.accelerators.devices import count_chips
from webhook.accelerators.slices import is_v7x
from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.objects import Container, PodSpec
from webhook.api.review import INVALID, Cause, Denied
from webhook.groups.identity import MAX_HOSTS, MAX_REPLICAS, HostIdentity

_DIGITS: Final = 9
"""Digits of an index; longer ones exceed any limit."""


def read_legacy_identity(group: str, label: str, spec: PodSpec) -> HostIdentity | None:
    """Return the identity assigned by the previous webhook: `label` is `<group>-<n>`; None without
    an id.

    The replica name is the label. It is the same for all hosts of the replica, so that hosts which
    are assigned later get the same name, and neither KubeRay nor this webhook generates it for
    another replica of the group. Raises Denied, and msgspec.DecodeError or UnicodeDecodeError for
    invalid variables.
    """
    containers = spec.containers or []
    asking = [container for container in containers if _asks(container)]
    ids = [
        worker_id
        for container in asking or filter(None, [spec.ray])
        if (worker_id := _worker_id(container))
    ]
    if not ids:
        return None
    index = label.removeprefix(f"{group}-")
    host = _host(ids, v7x=_v7x(spec))
    if index == label or not _is_index(index, MAX_REPLICAS) or host is None:
        listed_ids = " and ".join(map(repr, map(shorten, dict.fromkeys(ids))))
        message = (
            f"{shorten(label)!r} and {names.TPU_WORKER_ID} {listed_ids} are not an identity: "
            f"expected {group}-<index> and the number of a host"
        )
        raise Denied(
            Cause(INVALID, message, f"metadata.labels[{names.LABEL_LEGACY_REPLICA_INDEX}]")
        )
    return HostIdentity(int(index), host, intern(label))


def _host(ids: list[str], *, v7x: bool) -> int | None:
    """Return the host index from the ids of its TPU containers, or None if they have none.

    On v7x each container is a worker: its id is host x containers + ordinal. On other TPUs, and in
    pods of webhook versions without support of v7x, all containers have the id of the host.
    """
    if not all(_is_index(worker_id, MAX_HOSTS * len(ids)) for worker_id in ids):
        return None
    numbers = [int(worker_id) for worker_id in ids]
    host = numbers[0] // len(numbers)
    if v7x and numbers == [host * len(numbers) + ordinal for ordinal in range(len(numbers))]:
        return host
    same = set(numbers) == {numbers[0]} and numbers[0] < MAX_HOSTS
    return numbers[0] if same else None


def _worker_id(container: Container) -> str:
    """Return the id of a container; of several, the kubelet uses the last.

    The previous webhook left placeholders of the template, and appended another variable.
    """
    variables = [
        variable for variable in container.variables() if variable.name == names.TPU_WORKER_ID
    ]
    return (variables[-1].value or "") if variables else ""


def _asks(container: Container) -> bool:
    return count_chips(container) > 0


def _v7x(spec: PodSpec) -> bool:
    return is_v7x((spec.node_selector or {}).get(names.NODE_TPU_ACCELERATOR, ""))


def _is_index(text: str, bound: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) < bound
