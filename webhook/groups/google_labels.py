"""Identities assigned by Google's webhook for TPUs: label `replicaIndex`, and `TPU_WORKER_ID`.

https://github.com/ai-on-gke/kuberay-tpu-webhook/blob/main/main.go (`mutatePod`)

See docs/contributing/decisions/0001-adopting-pods-of-a-previous-webhook.md.
"""

from collections.abc import Callable
from typing import Final

from webhook.accelerators.devices import TPU, devices_of_container
from webhook.accelerators.slices import is_v7x
from webhook.api import names
from webhook.api.formats import shortened
from webhook.api.objects import Container, PodSpec, Strings
from webhook.api.review import INVALID, Cause, Denied
from webhook.groups.identity import MAX_HOSTS, MAX_REPLICAS, HostIdentity, carried_seat

_DIGITS: Final = 9
"""Digits of an index; longer ones exceed any limit."""


def adopted_seat(group: str, label: str, spec: PodSpec) -> HostIdentity | None:
    """Return the identity assigned by the previous webhook: `label` is `<group>-<n>`; None without
    an id.

    The replica name is the label. It is the same for all hosts of the replica, so that hosts which
    are assigned later get the same name, and neither KubeRay nor this webhook generates it for
    another replica of the group. Raises Denied, and msgspec.DecodeError or UnicodeDecodeError for
    invalid variables.
    """
    containers = spec.containers or []
    asking = [each for each in containers if _asks(each)]
    ids = [found for each in asking or filter(None, [spec.ray]) if (found := _worker_id(each))]
    if not ids:
        return None
    index = label.removeprefix(f"{group}-")
    host = _host(ids, several=len(ids) > 1 and _v7x(spec))
    if index == label or not _is_index(index, MAX_REPLICAS) or host is None:
        shown = " and ".join(map(repr, map(shortened, dict.fromkeys(ids))))
        text = (
            f"{shortened(label)!r} and {names.TPU_WORKER_ID} {shown} are not an identity: expected "
            f"{group}-<index> and the number of a host"
        )
        raise Denied(Cause(INVALID, text, f"metadata.labels[{names.LABEL_LEGACY_REPLICA_INDEX}]"))
    return HostIdentity(int(index), host, label)


def seat_of(
    group: str,
    labels: Strings,
    spec: Callable[[], PodSpec] | None,
    hosts: int | None,
    bound: int = MAX_HOSTS,
) -> HostIdentity | None:
    """Return the identity of a pod of a group, by its labels or by the previous webhook, or None.

    All callers use this function, with different arguments on purpose:

    - `bound`: hosts below it are valid. A new pod has to be within `numOfHosts`, because its peers
      expect no other hosts. A live pod keeps the identity that it got while its group had more
      hosts, so that no other pod gets that identity.
    - `hosts`: the current number of hosts per replica, None if unknown. A replica of 1 host has no
      name, and an index is its whole identity. The watch of pods does not use RayClusters: it
      accepts an index without a name in any group, because a taken identity must not be assigned
      again, and an adopted replica keeps its name, which is unused in single-host groups.
    - `spec`: the source of the previous webhook's variables, None if only labels count. Repair, for
      example, handles only pods whose identity is in their labels.

    Raises Denied for invalid labels or variables of an identity, and msgspec.DecodeError or
    UnicodeDecodeError for variables that cannot be decoded.
    """
    alone = (hosts is None or hosts <= 1) and names.LABEL_HOST_INDEX not in labels
    carried = carried_seat(labels, 1 if alone else bound)
    previous = labels.get(names.LABEL_LEGACY_REPLICA_INDEX)
    if carried is not None or previous is None or spec is None:
        return carried
    seat = adopted_seat(group, previous, spec())
    if seat is None or seat.host >= bound:
        return None
    return HostIdentity(seat.replica, 0, "") if hosts == 1 and seat.host == 0 else seat


def _host(ids: list[str], *, several: bool) -> int | None:
    """Return the host index from the ids of its TPU containers, or None if they have none.

    On v7x each container is a worker: its id is host x containers + ordinal. On other TPUs, and in
    pods of webhook versions without support of v7x, all containers have the id of the host.
    """
    if not all(_is_index(each, MAX_HOSTS * len(ids)) for each in ids):
        return None
    numbers = [int(each) for each in ids]
    host = numbers[0] // len(numbers)
    if several and numbers == [host * len(numbers) + each for each in range(len(numbers))]:
        return host
    same = set(numbers) == {numbers[0]} and numbers[0] < MAX_HOSTS
    return numbers[0] if same else None


def _worker_id(container: Container) -> str:
    """Return the id of a container; of several, the kubelet uses the last.

    The previous webhook left placeholders of the template, and appended another variable.
    """
    found = [each for each in container.variables() if each.name == names.TPU_WORKER_ID]
    return (found[-1].value or "") if found else ""


def _asks(container: Container) -> bool:
    return devices_of_container(container).get(TPU.name, 0) > 0


def _v7x(spec: PodSpec) -> bool:
    return is_v7x((spec.node_selector or {}).get(names.NODE_TPU_ACCELERATOR, ""))


def _is_index(text: str, bound: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) < bound
